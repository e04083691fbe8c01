"""Which measures track specialisation: their rank correlation with alignment, with intervals."""

from collections.abc import Iterator, Mapping

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures.averages import counts, note
from modtf.analysis.figures.base import Choice, NothingToDraw, Pictures
from modtf.analysis.figures.layout import panels
from modtf.analysis.figures.marks import dots, named_rows
from modtf.analysis.figures.registry import register_figure
from modtf.analysis.figures.style import Look
from modtf.analysis.text import listing, plural
from modtf.analysis.tracking import ALL, BORDER, LEAST, OVER, TRUTH
from modtf.analysis.trained import TrainedModels

NAME, TITLE = "measures_judged", f"Measures judged: rank correlation with {TRUTH}"
SAID = (
    f"right of 0: a measure says of trained routers what {TRUTH} says, beyond {BORDER:g} it tracks "
    "specialisation, left of 0 it misleads"
)


@register_figure(NAME)
def draw(study: TrainedModels, choice: Choice) -> Pictures:
    """One picture: a row for every measure, the best above, a panel for every kind of task."""
    table = study.judged_measures
    if table.empty:
        raise NothingToDraw("no activation matrices of a router that learned are there")
    known = table[table["correlation"].notna()]
    if known.empty:
        raise NothingToDraw("there are no three models with several modules in any task to be ranked")
    first = known[known["over"] == known["over"].iloc[0]]
    means = first.groupby("measure", observed=True)["correlation"].mean()
    order = means.sort_values(ascending=False, kind="stable").index.tolist()
    order += [name for name in known["measure"].unique() if name not in order]
    # the legend tells apart among which models a correlation is
    drawn = known.assign(
        measure=pd.Categorical(known["measure"], order), variant=pd.Categorical(known["over"], list(OVER))
    )
    size = (2.6, 0.5 + 0.27 * len(order))
    yield panels(_mark, drawn, NAME, TITLE, _note(study, table, known), column="kind", size=size)


def _note(study: TrainedModels, table: pd.DataFrame, known: pd.DataFrame) -> str:
    ranked = known.loc[known["over"] == ALL, "num_points"]
    words = [SAID, counts(study, known).replace("each mean", "each correlation")]
    if len(ranked):
        words.append(f"up to {plural(int(ranked.max()), 'model')} ranked in a task, seeds averaged")
    words.append("models whose activation never changes, such as gt_modular, are left out")
    return note([*words, f"checkpoint {study.checkpoint}"], [*_undefined(table), *_without_value(table)])


def _undefined(table: pd.DataFrame) -> Iterator[str]:
    """Where nothing can be ranked: of every measure in a kind, or of one."""
    lacks = table.assign(lacks=table["num_tasks"] == 0)
    lacks["all"] = lacks.groupby(["over", "kind"], observed=True)["lacks"].transform("all")
    for over, part in lacks[lacks["all"]].groupby("over", observed=True):
        few = f"fewer than {LEAST} models, or all alike"
        yield f"nothing to rank among {over} ({few}) in {listing(part['kind'])}"
    for row in lacks[lacks["lacks"] & ~lacks["all"]].itertuples():
        yield f"{row.measure} is undefined ({row.over}, {row.kind})"


def _without_value(table: pd.DataFrame) -> Iterator[str]:
    """Models of which a measure says nothing, and those that diverged, of which none does."""
    lost = table.pivot_table("num_missing", "measure", "kind", "max", observed=True)
    of_all = lost.min()  # of a kind: what every measure lacks
    if diverged := int(of_all.sum()):
        yield f"{plural(diverged, 'model')} diverged"
    for measure, number in (lost - of_all).sum(axis=1).items():
        if number:
            yield f"{measure} has no value for {plural(int(number), 'model')}"


def _mark(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    names = list(data["measure"].cat.categories)
    for place, (over, look) in enumerate(looks.items()):
        rows = data[data["variant"] == over]
        if len(rows):
            y = [names.index(name) + 0.16 * (2 * place - 1) for name in rows["measure"]]
            dots(axes, rows, y, look, "correlation", "low", "high", label=over)
    axes.axvline(BORDER, color="black", linewidth=0.8, linestyle=":")
    named_rows(axes, names, 1.08, "{:g}")
