"""The page of a scorecard: pictures, what they say in words, differences, all numbers."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from modtf.analysis.figures import Picture, panels
from modtf.analysis.figures.layout import Look, by_variant, dots, joined
from modtf.analysis.intervals import summarise
from modtf.analysis.labels import kind_label
from modtf.analysis.report.sections import WORDS, ranked_cells
from modtf.analysis.study import Study
from modtf.analysis.table import table_note
from modtf.base.files import write_csv, write_text
from modtf.experiments.modarch.fixed_routing import CLAMPED, WAYS
from modtf.experiments.modarch.scorecard import compare
from modtf.experiments.modarch.studies.scorecard import ORACLE
from modtf.metrics import MAIN_GROUPS, activation_measures
from modtf.pages import page
from modtf.pages.page import Section
from modtf.pages.pictures import GREY
from modtf.pages.text import percent_of
from modtf.routing.report.write import shown

PAGE, DIFFERENCES = "scorecard.html", "differences.csv"
NAMED, OTHERS = ("modular", ORACLE), "other routers"  # in the figure with fixed routing
NEW = Look("#D55E00", "D")
PLACES = (
    "The cost of routing with the same distance from the rules. The curve is the loss of modules trained "
    "under fixed routing, from perfect to useless, interpolated for each task between four misrouting rates. "
    "It is not a law: routings with equal alignment differ in cost (docs/misrouting.md)."
)
PAIRED = (
    "Your router against each row, paired over tasks. Losses: multiples of the row's loss; below 1, your "
    "router is better. Measures: differences in their unit; above 0, your router is better. Better and "
    "worse: p at most 0.05 after Holm's correction for the rows of a column. Else undecided."
)

RANKED = "All rows, the smallest loss in distribution first."
CARRIES = (
    "It is undecided whether a language model orders routers in this way (docs/languages_order.md). "
    "--tasks=languages trains yours in one."
)
RATES = (
    "Validation loss of each row by the learning rate at the first step, joined over tasks that are not "
    "reported. The learning rate falls to 0 as a cosine. * marks the lowest loss: at this rate "
    "the row is trained on the reported tasks."
)


def write_page(
    study: Study,
    own: str,
    rates: Mapping[str, pd.DataFrame],
    out: Path,
    describe: compare.Describe,
    warnings: Sequence[str] = (),
    smoke: Sequence[str] = (),
) -> tuple[Path, list[str], list[str]]:
    """Write scorecard.html, its pictures and differences.csv.

    Args:
        study: the rows of all cards.
        own: your router, as the study names it.
        rates: `rates_table` of each family.
        out: the folder.
        describe: see `compare.verdict`.
        warnings: what a reader has to know.
        smoke: the verdict on cards of a few steps, whose numbers mean nothing.

    Returns:
        The path of the page, and the verdict with which it begins; its other results, in sentences.
    """
    differences, places = compare.differences(study, own), compare.places(study)
    short, learned = compare.in_short(study, own, differences, places), without_given(study)
    verdict = list(smoke) or compare.verdict(learned, own, differences, describe)
    write_csv(out / DIFFERENCES, differences)
    rows, ranked, tables = [], [], []
    for kind in study.kinds:
        name, part = kind_label(*kind), learned.part(*kind)
        rows.append(shown(draw_rows(part, own), out, DIFFERENCES))
        brief = compare.in_brief(differences[differences["kind"] == name])
        header, body = ranked_cells(part.results, study.level)
        numbers = page.Table(pd.DataFrame(body, columns=header).drop(columns="seconds"))
        ranked.append(numbers)
        tables.append(Section(f"{name}: differences", [PAIRED], content=[page.Table(brief, DIFFERENCES)]))
        tables.append(Section(f"{name}: all rows", [table_note(part.results)], content=[numbers]))
        tables.append(Section(f"{name}: learning rates", [RATES], content=[page.Table(rates[kind[0]])]))
    fixed = [shown(draw_places(places, own), out, DIFFERENCES)] if len(places) else []
    note = f"{RANKED} {CARRIES}" if fixed else RANKED  # fixed routing is among the rows of the rule tasks
    sections = [
        Section("What was found", (), warnings, [page.Text(note, small=True), ranked[0], rows[0]], verdict),
        Section("In detail", short, content=rows[1:]),
        *([Section("Compared with fixed routing", [PLACES], content=fixed)] if fixed else []),
        *tables,
        *([page.measures_section(activation_measures(MAIN_GROUPS))] if fixed else []),
        page.glossary_section(
            WORDS, "task", "variant", "CI", "in distribution", "out of distribution", "alignment"
        ),
    ]
    write_text(out / PAGE, page.render(f"modtf scorecard: {own}", sections))
    return out / PAGE, verdict, short


def without_given(study: Study) -> Study:
    """Return the study without fixed routing."""
    names = study.results.loc[study.results["router"] != CLAMPED, "variant"].unique()
    return study.part(variant=list(names))


def draw_rows(part: Study, own: str) -> Picture:
    """Every row of a kind, best in distribution first, by every score."""
    rows, kind = compare.scores(part), kind_label(*part.kinds[0])
    over = ["arch", "measure", "condition", "distribution", "place"]
    table = summarise(rows, ["score", "variant"], over, level=part.level)
    order = table[table["score"] == table["score"].min()].sort_values("mean")["variant"].astype(str)
    table["variant"] = pd.Categorical(table["variant"].astype(str), order)
    tasks = int(table["num_tasks"].max())
    note = f"Smaller is better. Means over {tasks} tasks, {percent_of(part.level)} Student's t intervals; "
    name, size = f"rows_{kind.lower().replace(' ', '_')}", (1.65, 0.2 * len(order) + 0.5)
    mark, title = partial(_rows, own=own), f"{kind}: {own} and the reference results"
    note += f"checkpoint {part.checkpoint}."
    return panels(mark, table, name, title, note, None, "score", size)


def _rows(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], own: str) -> None:
    names, place = list(looks), axes.get_subplotspec()
    for name, _, line in by_variant(data, looks):
        look = NEW if name == own else Look(GREY, "o")
        dots(axes, line, [names.index(name)], look, "mean", "low", "high")
    axes.set_yticks(range(len(names)), names if place is None or place.is_first_col() else [""] * len(names))
    for label in axes.get_yticklabels():
        label.set_fontweight("bold" if label.get_text() == own else "normal")
    axes.set(ylim=(len(names) - 0.5, -0.5))
    least, most = data["mean"].min(), data["mean"].max()
    if data["score"].iloc[0] in compare.LOSSES.values() and most > 10 * least:
        axes.set_xscale("log")  # a failed model would hide the differences of all others
        axes.set_xlim(0.8 * least, 1.25 * data["high"].max())
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xlim(0, None)


def draw_places(places: pd.DataFrame, own: str) -> Picture:
    """Draw the result of `compare.places`: loss as a multiple of the oracle's, against alignment."""
    key, cost = ["variant", "distribution"], places[places["quantity"] == "cost"]
    at = places[places["quantity"] == "alignment"].set_index(key)["mean"]
    table = cost.assign(x=at.reindex(pd.MultiIndex.from_frame(cost[key])).to_numpy())
    names = table["variant"].astype(str)
    for sampled, way in WAYS.items():
        names = names.mask(names.str.fullmatch(rf"{CLAMPED} \(.*hard={sampled}\)"), f"fixed, {way}")
    kept = names.isin(NAMED) | names.str.contains(r"^fixed|\)$")  # and of other cards
    table = table.assign(variant=names.where(kept, OTHERS))
    table.loc[~kept, ["low", "high"]] = None
    perfect = [table[table["variant"] == ORACLE].assign(variant=f"fixed, {way}") for way in WAYS.values()]
    note = (
        f"Loss as a multiple of {ORACLE}'s on the same task, geometric means over "
        f"{cost['num_tasks'].max()} tasks with intervals (Student's t). Fixed, weighted: p is a row of a "
        "matrix; sampled: one module per token."
    )
    table, mark = pd.concat([*perfect, table], ignore_index=True), partial(_places, own=own)
    return panels(
        mark,
        table,
        "places",
        "MLP regression: the cost of routing against alignment",
        note,
        None,
        key[1],
        (4.6, 3.2),
    )


def _places(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], own: str) -> None:
    for name, look, line in by_variant(data, looks, "x"):
        style: dict[str, Any] = {} if name.startswith("fixed") else {"linestyle": ""}
        style |= {"color": GREY, "marker": "."} if name == OTHERS else {}
        style |= {"color": NEW.colour, "marker": "*", "markersize": 11} if name == own else {}
        joined(axes, name, look, line["x"], line, **style)
    axes.set(yscale="log", xlim=(-0.03, 1.0), xlabel="Alignment", ylabel="Loss / the oracle's")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
