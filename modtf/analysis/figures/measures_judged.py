"""The figure of measures that track specialisation: their rank correlation with alignment, with intervals."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures.averages import note
from modtf.analysis.figures.layout import Look, dots, named_rows, panels
from modtf.analysis.figures.registry import SPECIALISES, Choice, register_figure
from modtf.analysis.tracking import BORDER, OVER, TRUTH
from modtf.analysis.trained import TrainedModels
from modtf.pages.pictures import NothingToDraw, Pictures
from modtf.pages.text import listing, percent_of, plural

NAME, TITLE = "measures_judged", f"Measures judged: rank correlation with {TRUTH}"
SAID = (
    f"above 0: a measure ranks trained routers as {TRUTH} does; above {BORDER:g} it tracks specialisation; "
    "below 0 it misleads. Left out are models that diverged, use one module, or whose activation never "
    "changes, such as gt_modular"
)


@register_figure(
    NAME,
    question=SPECIALISES,
    shows="Which measures rank trained routers as alignment does.",
)
def draw(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw one picture: a row for every measure, the best above, a panel for every task type."""
    table = study.judged_measures
    if table.empty:
        raise NothingToDraw(
            "no activation matrices of a learned router are in the results; --variant=modular trains one"
        )
    known = table[table["correlation"].notna()]
    if known.empty:
        raise NothingToDraw(
            "no task has three models with several modules to rank; run more variants or numbers of rules"
        )
    means = known.groupby(["over", "measure"], observed=True)["correlation"].mean().reset_index()
    means = means.sort_values(["over", "correlation"], ascending=[True, False], kind="stable")
    # the legend shows which models each correlation is computed over
    drawn = known.assign(
        measure=known["measure"].cat.set_categories(list(means["measure"].unique())),
        variant=pd.Categorical(known["over"], list(OVER)),
    )
    size = (2.6, 0.5 + 0.27 * means["measure"].nunique())
    ranked = table.groupby(["over", "kind"], observed=True)["num_tasks"].transform("max") > 0
    lacks = table[~ranked].groupby("over", observed=True)["kind"]
    missing = [f"nothing to rank among {over} in {listing(kinds)}" for over, kinds in lacks]
    tasks = f"{plural(known['num_models'].max(), 'model')} of {plural(known['num_tasks'].max(), 'task')}"
    words = [
        SAID,
        f"each over up to {tasks}; intervals: {percent_of(study.level)} of samples of routers and tasks",
    ]
    text = note([*words, f"checkpoint {study.checkpoint}"], missing)
    yield panels(_mark, drawn, NAME, TITLE, text, column="kind", size=size)


def _mark(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    names = list(data["measure"].cat.categories)
    for place, (over, look) in enumerate(looks.items()):
        rows = data[data["variant"] == over]
        if len(rows):
            y = [names.index(name) + 0.16 * (2 * place - 1) for name in rows["measure"]]
            dots(axes, rows, y, look, "correlation", "low", "high", label=over)
    axes.axvline(BORDER, color="black", linewidth=0.8, linestyle=":")
    named_rows(axes, names, 1.08, "{:g}".format)
