"""What misrouting costs: performance against how far routing is from the rules."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures.averages import counts, note, performance
from modtf.analysis.figures.base import Choice, NothingToDraw, Pictures
from modtf.analysis.figures.layout import Look, panels
from modtf.analysis.figures.marks import SMALL, whiskers
from modtf.analysis.figures.registry import register_figure
from modtf.analysis.summary import summarise
from modtf.analysis.trained import TrainedModels
from modtf.experiments.modarch.given import GIVEN, family_of_matrices
from modtf.metrics import MEASURES

AGAINST = ("alignment", "inverse_mutual_information")
FAMILIES = ("mlp", "mha", "rnn")


@register_figure("misrouting", FAMILIES)
def misrouting(study: TrainedModels, choice: Choice) -> Pictures:
    """A picture by kind: performance in and out of distribution, by families of given routings; learned ones
    beside them."""
    rows = study.results
    if not (rows["router"] == GIVEN).any():
        raise NothingToDraw(f"no {GIVEN} routing was trained; sweep --study=misrouting trains eleven")
    model = ["kind", "variant", "num_rules", "width", "data_seed", "seed"]
    places = rows[rows["measure"].isin(AGAINST)].pivot_table("value", model, "measure", observed=True)
    found = performance(rows).merge(places.reset_index(), on=model)
    found["model"] = found["variant"].astype(str)
    options = found["model_options"].astype(str).where(found["router"] == GIVEN, "")
    found["variant"] = found["model"].mask(found["router"] == GIVEN, options.map(family_of_matrices))
    for (kind, num_rules, width), part in found.groupby(["kind", "num_rules", "width"], observed=True):
        table = _table(study, part)
        name = f"misrouting_{str(kind).lower().replace(' ', '_')}_r{num_rules}_e{width}"
        words = [
            counts(study, table),
            f"checkpoint {study.checkpoint}",
            "soft: p is a row; drawn: one module",
        ]
        yield panels(
            _mark, table, name, f"What misrouting costs: {kind}, R = {num_rules}, width {width}",
            note(words, []), "where", "against", (3.6, 2.6),
        )  # fmt: skip


def _table(study: TrainedModels, part: pd.DataFrame) -> pd.DataFrame:
    """The mean of every model's performance, at the mean of the measure that it is drawn against."""
    by = ["where", "variant", "model"]
    over = ["kind", "protocol", "condition", "measure"]
    means = summarise(part, by, over, level=study.level).set_index(by)
    drawn = [
        means.assign(x=part.groupby(by, observed=True)[name].mean(), against=MEASURES[name].axis_label)
        for name in AGAINST
    ]
    return pd.concat(drawn).reset_index().sort_values("x", kind="stable")


def _mark(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    for name, look in looks.items():
        line = data[data["variant"] == name]
        style: dict[str, Any] = {
            "color": look.colour,
            "marker": look.marker,
            "linestyle": "-" if len(line) > 1 else "",
        }
        if len(line):
            axes.errorbar(
                line["x"], line["mean"], yerr=whiskers(line), label=name, linewidth=1.2, **style, **SMALL
            )
    axes.set_xlim(-0.03, 1.03)
    axes.set_yscale("log")
