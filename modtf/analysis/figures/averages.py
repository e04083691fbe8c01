"""Means for a picture, over the same for every variant, and the note that says what they stand on."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pandas as pd

from modtf.analysis.figures.base import NothingToDraw, Picture, Pictures
from modtf.analysis.figures.layout import panels
from modtf.analysis.labels import RANDOM, known_variants
from modtf.analysis.rows import OUT, headline_label
from modtf.analysis.summary import summarise
from modtf.analysis.text import listing, plural
from modtf.analysis.trained import TrainedModels
from modtf.families import FAMILIES
from modtf.results import KIND

OVER = (*KIND, "num_rules", "width", "protocol")  # what a mean may be over, besides tasks and seeds
SHOWN = {"width": "width ", "num_rules": "R = ", "kind": ""}  # what a note says of them


def average(
    study: TrainedModels, rows: pd.DataFrame, by: Sequence[str], *said: str
) -> tuple[pd.DataFrame, str]:
    """The mean and interval for every combination of `by`, over kinds, R and widths that are not in it.

    Args:
        study: where the rows come from.
        rows: results, with `kind`.
        by: columns, "variant" among them. Where the variants of a point were run with different sizes,
            those that all of them have are kept.
        said: goes into the note.

    Returns:
        What `summarise` gives, and a note: how many models, which intervals, checkpoint, what is missing.

    Raises:
        NothingToDraw: where no size was run with all variants, so that no mean is over the same for all.
    """
    point = [name for name in by if name != "variant"]
    over = [name for name in OVER if name not in by]
    wanted = rows.groupby(point, observed=True)["variant"].transform("nunique")
    size = [name for name in over if name != "protocol"]  # in which variants may differ, once tuned
    kept = rows[rows.groupby([*point, *size], observed=True)["variant"].transform("nunique") == wanted]
    if kept.empty:
        names = listing(rows.loc[rows["variant"] != RANDOM, "variant"])
        raise NothingToDraw(
            f"no number of rules, width and kind was run with all of {names}; choose with --variant, "
            "or give fewer folders"
        )
    summary = summarise(kept, by, over, level=study.level)
    models = summary[summary["variant"] != RANDOM]
    expected = known_variants(rows["arch"].unique())
    modular = len(models) < len(summary)  # with random activation: the least informed has one module
    missing = lacking(models, point, expected[modular:])
    missing += ["sizes that not all variants were run with are left out"] if len(kept) < len(rows) else []
    words = [counts(study, models), *sizes(kept, point), *said]
    words += [] if "step" in by else [f"checkpoint {study.checkpoint}"]
    return summary, note(words, missing)


def means(
    study: TrainedModels,
    rows: pd.DataFrame,
    mark: Callable[..., object],
    x: str | None,
    name: str,
    title: str,
    *said: str,
    row: str | None = None,
    column: str | None = None,
) -> Picture:
    """Averages as a picture: `average`, then `panels`.

    Args:
        study, rows, said: as in `average`; rows have the columns `measure` and `kind`.
        mark: `lines`, `curves` or `bars`, or another `mark(axes, part, looks, x)`.
        x: column on the horizontal axis; None where the mark takes none.
        name, title, row, column: as in `panels`.
    """
    by = dict.fromkeys([row, "measure", column, x, "variant"])
    table, text = average(study, rows, [name for name in by if name], *said)
    return panels(partial(mark, x=x) if x else mark, table, name, title, text, row, column)


def overview_and_widths(
    study: TrainedModels, rows: pd.DataFrame, *drawn: Any, overview: str | None, detail: str, column: str
) -> Pictures:
    """A picture of averages, a row for each `overview`; then, where it hides something, one per width.

    Args:
        study, rows, drawn, column: as in `means`.
        overview, detail: `row` of the first picture, and of the others.
    """
    mark, x, name, title, *said = drawn
    averaged = rows
    if x and not overview:  # the kinds that were run at every x: a line must not bend because a kind ends
        averaged = rows[rows.groupby("kind", observed=True)[x].transform("nunique") == rows[x].nunique()]
    if len(averaged):
        yield means(study, averaged, *drawn, row=overview, column=column)
    if len(rows[[detail, "width"]].drop_duplicates()) > (rows[overview].nunique() if overview else 1):
        for width, part in rows.groupby("width"):
            named = (f"{name}_e{width}", f"{title}, width {width}", *said)
            yield means(study, part, mark, x, *named, row=detail, column=column)


def note(words: Iterable[str], missing: Sequence[str] = ()) -> str:
    """A sentence of `words`, and one on what is missing."""
    text = "; ".join(words)
    return f"{text[0].upper()}{text[1:]}." + (f" Incomplete: {'; '.join(missing)}." if missing else "")


def counts(study: TrainedModels, summary: pd.DataFrame, word: str = "model") -> str:
    """How many models and tasks stand behind each mean, and what its interval is."""
    spans = [
        plural(most, name) if least == most else f"{least} to {most} {name}s"
        for name, column in ((word, "num_models"), ("task", "num_tasks"))
        for least, most in [(int(summary[column].min()), int(summary[column].max()))]
    ]
    over = f"{study.level:.0%} Student's t intervals over tasks"
    interval = over if summary["num_tasks"].max() > 1 else "no intervals, as there is one task"
    return f"each mean over {' of '.join(spans)}; {interval}"


def sizes(kept: pd.DataFrame, point: Sequence[str]) -> list[str]:
    """The widths and R of what is shown, whether means are over them, and what out of distribution is."""
    said = []
    groups = kept.groupby(list(point), observed=True)
    for name, word in SHOWN.items():
        several = name not in point and groups[name].nunique().max() > 1
        if several or (word and name not in point):
            said.append(("means over " if several else "") + word + listing(kept[name]))
    titles: dict[str, list[str]] = {}
    if "distribution" in kept and (kept["distribution"] == OUT).any():
        for arch in kept["arch"].drop_duplicates().sort_values():
            titles.setdefault(headline_label(arch), []).append(FAMILIES[arch].title)
    return said + [f"out of distribution ({', '.join(of)}): {label}" for label, of in titles.items()]


def lacking(summary: pd.DataFrame, point: Sequence[str], expected: Sequence[str]) -> list[str]:
    """Missing variants and points, values that are not finite, unequal numbers of models, for a note."""
    absent = [name for name in expected if name not in set(summary["variant"])]
    points = len(summary[list(point)].drop_duplicates()) * summary["variant"].nunique() - len(summary)
    infinite = summary["num_missing"].sum()
    unequal = (summary.groupby(list(point), observed=True)["num_models"].nunique() > 1).any()
    said = {
        f"no {', '.join(absent)}": absent,
        f"{plural(points, 'point')} not run": points,
        f"{plural(infinite, 'value')} not finite and left out": infinite,
        "variants stand on unequal numbers of models": unequal,
    }
    return [words for words, true in said.items() if true]
