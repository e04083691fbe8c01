"""Performance against R, width, length and steps; collapse and specialisation by variant and against R."""

from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures.activation import changed_places
from modtf.analysis.figures.averages import activation, drawable, means, overview_and_widths, performance
from modtf.analysis.figures.layout import bars, curves, lines
from modtf.analysis.figures.registry import HELPS, SIZE, SPECIALISES, TRAINING, Choice, register_figure
from modtf.analysis.labels import place_label
from modtf.analysis.rows import COLLAPSES, IN, has_unequal_rules
from modtf.analysis.trained import TrainedModels
from modtf.base.words import command_line
from modtf.pages.pictures import GREY, NothingToDraw, Pictures
from modtf.tasks.families import FAMILIES, Family

MOST_COLUMNS = 12  # the largest number of panels side by side


@register_figure(
    "performance_vs_num_rules",
    question=HELPS,
    shows="The loss or error of each variant. Lower is better.",
)
def against_rules(study: TrainedModels, choice: Choice) -> Pictures:
    """Yield a picture by architecture, averaged over widths and options; then one per width.

    If there is only one R, it has bars."""
    if study.results["num_rules"].nunique() == 1:
        drawn: tuple[Any, ...] = (performance(study.results), bars, None)
        drawn += ("performance_bars", "Performance by variant")
    else:
        drawn = (performance(with_several_rules(study)), lines, "num_rules")
        drawn += ("performance_vs_num_rules", "Performance against number of rules")
    return overview_and_widths(study, *drawn, overview="title", detail="family", column="where")


def with_several_rules(study: TrainedModels) -> pd.DataFrame:
    """Return the results of families whose tasks can have other numbers of rules."""
    rows = study.results
    names = rows["arch"].unique()
    fixed = [name for name in names if type(FAMILIES[name]).fixed_rules is not Family.fixed_rules]
    kept = rows[~rows["arch"].isin(fixed)]
    if fixed and kept.empty:
        raise NothingToDraw(f"the number of rules is fixed by the task in {', '.join(fixed)}")
    return kept


@register_figure(
    "performance_vs_width",
    question=SIZE,
    shows="The loss or error of each variant against the width of the network.",
)
def against_width(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw one picture in and one out of distribution."""
    rows = performance(study.results)
    if rows["width"].nunique() == 1:
        more = command_line("sweep", arch=str(rows["arch"].iloc[0]), width="32,64")
        raise NothingToDraw(f"only one width, {rows['width'].iloc[0]}, was run; {more} runs two")
    for where, part in rows.groupby("distribution", observed=True):
        name, title = f"performance_vs_width_{where}".replace(" ", "_"), f"Performance against width, {where}"
        yield means(study, part, lines, "width", name, title, row="panel", column="num_rules")


@register_figure(
    "performance_vs_seq_len",
    question=SIZE,
    shows="The loss or error of each variant at other lengths than in training, which the dotted line marks.",
)
def against_length(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw one picture per scale of the inputs and width."""
    rows = performance(study.results, headline=False)
    tested = {name: one for name, one in FAMILIES.items() if any(c.seq_len for c in one.conditions)}
    lengths = [
        (arch, condition.name, condition.seq_len or family.training_length, condition.scale)
        for arch, family in tested.items()
        for condition in (*family.conditions, *(c for c in family.more_conditions if c.seq_len))
        if not condition.options  # other data of the same length
    ]
    known = pd.DataFrame(lengths, columns=["arch", "condition", "tokens", "scale"])
    for name in ("arch", "condition"):
        known = known[known[name].isin(rows[name].unique())].astype({name: rows[name].dtype})
    rows = rows.merge(known)
    if rows.empty:
        raise NothingToDraw(
            f"no family with test conditions of several lengths was run; --arch={' or '.join(tested)} has "
            "some"
        )
    arch = rows.groupby("panel", observed=True)["arch"].first()

    def mark(axes: Axes, data: pd.DataFrame, looks: Any, x: str) -> None:
        lines(axes, data, looks, x)
        trained = tested[arch[data["panel"].iloc[0]]].training_length
        axes.axvline(trained, color=GREY, linestyle=":", zorder=1)

    for (scale, width), part in rows.groupby(["scale", "width"]):
        name = f"performance_vs_seq_len_scale{scale:g}_e{width}"
        title = f"Performance against sequence length, inputs x {scale:g}, width {width}"
        note = "dotted: the training length"
        yield means(study, part, mark, "tokens", name, title, note, row="panel", column="num_rules")


@register_figure(
    "training_curves",
    question=TRAINING,
    shows="The validation loss or error of each variant against the training step.",
)
def against_steps(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw one picture averaged over all but the setting, one by family, then one per width by type and R."""
    rows = performance(study.history)
    rows = rows[rows["distribution"] == IN]
    parts: list[tuple[str | None, str, str, str, pd.DataFrame]] = []
    parts += [(None, "where", "", ", averaged", comparable(rows, ["where"]))]
    if rows["family"].nunique() > 1:
        parts += [("family", "where", "_by_family", " by family", comparable(rows, ["family", "where"]))]
    for width, part in rows.groupby("width"):
        parts += [("panel", "num_rules", f"_e{width}", f", width {width}", part)]
    parts = [series for series in parts if series[-1]["step"].nunique() > 1]
    if not parts:
        raise NothingToDraw(
            "no cells share a step after the first; train all with the same --steps and training.evaluations"
        )
    note, pictures = "on validation batches, at the steps that all averaged cells have", []
    for row, column, suffix, words, part in parts:
        named = f"training_curves{suffix}", f"Training curves{words}", note
        pictures.append(partial(means, study, part, curves, "step", *named, row=row, column=column))
    yield from drawable(pictures)


def comparable(rows: pd.DataFrame, panel: list[str]) -> pd.DataFrame:
    """Return the steps that all cells of a panel share: a curve must not bend because a cell ends."""
    cells = rows.groupby(panel, observed=True)["folder"].transform("nunique")
    return rows[rows.groupby([*panel, "step"], observed=True)["folder"].transform("nunique") == cells]


@register_figure(
    "collapse_and_specialisation_vs_num_rules",
    question=SIZE,
    shows="The same measures against the number of rules.",
)
def collapse_against_rules(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw one picture averaged over task types and widths, then one per width with a row per task type."""
    rules = study.results["num_rules"].unique()
    if len(rules) == 1:
        more = command_line("sweep", arch=str(study.results["arch"].iloc[0]), rules="2,8")
        raise NothingToDraw(f"only one number of rules, {rules[0]}, was run; {more} runs two")
    rows = with_several_rules(study)
    return _collapse(study, rows, lines, "num_rules", "vs_num_rules", "against number of rules")


@register_figure(
    "collapse_and_specialisation_bars",
    question=SPECIALISES,
    shows="How evenly each variant uses its modules, and how well the modules "
    "divide the rules among themselves. Compare with random routing.",
)
def collapse_by_variant(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw one picture averaged over task types, widths and R, then one per width with rows per task type."""
    return _collapse(study, study.results, bars, None, "bars", "by variant")


def _collapse(
    study: TrainedModels, results: pd.DataFrame, mark: Any, x: str | None, suffix: str, words: str
) -> Pictures:
    """Draw all measures; with several routed layers, each one whose routing changed in training."""
    rows = activation(results)
    parts = [("", "", rows)]
    if rows["label"].nunique() > MOST_COLUMNS:
        places = dict.fromkeys(place for part in study.by_kind for place in changed_places(part))
        parts = [
            (f"_{place}" if place else "", place_label("", place), rows[rows["place"] == place])
            for place in places
        ]
    notes = ["smaller is better, unless a label says otherwise", "random: random routing"]
    notes += [COLLAPSES] * has_unequal_rules(results)
    for end, title, part in parts:
        named = f"collapse_and_specialisation_{suffix}{end}", f"Collapse and specialisation {words}{title}"
        drawn = (part, mark, x, *named, *notes)
        yield from overview_and_widths(study, *drawn, overview=None, detail="kind", column="label")
