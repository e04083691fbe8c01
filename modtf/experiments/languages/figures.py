"""The figures of languages: loss and information over training, and against each other."""

from collections.abc import Mapping
from functools import partial

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures import Choice, NothingToDraw, Pictures, curves, note, panels, register_figure
from modtf.analysis.figures.averages import counts
from modtf.analysis.figures.layout import Look, Mark, by_variant, joined
from modtf.analysis.figures.registry import HELPS, TRAINING
from modtf.analysis.intervals import summarise
from modtf.analysis.labels import with_kinds
from modtf.analysis.trained import TrainedModels
from modtf.experiments.languages.family import LANGUAGE, LANGUAGE_CHANCE, WORD, WORD_CHANCE
from modtf.tasks.families import IID

LOSS = "Excess loss, nats a token"
INFORMATION = {LANGUAGE: "Language bits", WORD: "Word bits"}
BY = ["kind", "num_rules", "width", "variant", "measure", "place"]


@register_figure(
    "languages_training",
    ("languages",),
    question=TRAINING,
    shows="The excess loss, and the information in the chosen experts, against the training step.",
)
def over_training(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw the loss and the bits about language and word in each layer over training."""
    means = _means(study, study.history, [*BY, "step"])
    if means["step"].nunique() < 2:
        raise NothingToDraw("the models were evaluated once; train with --set training.evaluations=10")
    yield from _pictures(
        study, means, "languages_training", "Loss and information", partial(curves, x="step")
    )


@register_figure(
    "languages_information",
    ("languages",),
    question=HELPS,
    shows="The excess loss of each router against the information of its experts about the language.",
)
def against_information(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw the excess loss against the bits about the language in each layer, one point a router."""
    means = _means(study, study.results[study.results["condition"].astype(str) == IID], BY)
    routers = ["kind", "num_rules", "width", "variant"]
    losses = means[means["measure"] == "loss"].set_index(routers)[["mean", "low", "high"]]
    bits = means[means["measure"] == LANGUAGE].rename(columns={"mean": "x"})
    points = bits.drop(columns=["low", "high"]).join(losses, on=routers)
    points["measure"] = "loss"
    yield from _pictures(study, points, "languages_information", "Loss against information", _points)


def _means(study: TrainedModels, rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return means with intervals of loss and information, with the title of a panel, `what`."""
    rows = rows[(rows["arch"] == "languages") & rows["measure"].isin(["loss", *INFORMATION])]
    rows = rows[rows["condition"].astype(str) == IID].astype({"place": str, "measure": str})
    rows = rows.assign(value=rows["value"].clip(lower=0).round(9))  # rounding errors of a single module
    means = summarise(rows, by, ["protocol", "condition"], level=study.level)
    titles = means["measure"].map(INFORMATION) + ": layer " + means["place"].str.removeprefix("layer")
    order = sorted(set(titles.dropna()), key=str)
    return means.assign(what=pd.Categorical(titles.fillna(LOSS), [LOSS, *order]))


def _pictures(study: TrainedModels, table: pd.DataFrame, name: str, title: str, mark: Mark) -> Pictures:
    rows = with_kinds(study.results[study.results["measure"].isin([LANGUAGE_CHANCE, WORD_CHANCE])])
    rows = rows[rows["condition"].astype(str) == IID].astype({"place": str, "measure": str})
    figure = ["kind", "num_rules", "width"]
    means = rows.groupby([*figure, "variant", "measure", "place"], observed=True)["value"].mean()
    largest = means.groupby(figure, observed=True).max()
    for (kind, num_rules, width), part in table.groupby(figure, observed=True):
        heading = f"{title}: {kind}, width {width}"
        most = largest.get((kind, num_rules, width))
        chance = [] if most is None else [f"labels of other tokens give at most {most:.2g} bits on average"]
        text = note([counts(study, part), *chance], [])
        label = f"{name}_{str(kind).lower().replace(' ', '_').replace(',', '')}_r{num_rules}_e{width}"
        yield panels(mark, part, label, heading, text, None, "what", (3.0, 2.4))


def _points(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    for name, look, line in by_variant(data, looks, "x"):
        joined(axes, name, look, line["x"], line, linestyle="")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("Information, bits")
    if (place := axes.get_subplotspec()) is not None and place.is_first_col():
        axes.set_ylabel(LOSS)
