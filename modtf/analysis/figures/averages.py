"""Means for a picture, over the same for every variant, and the note that says what they stand on."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from modtf.analysis.contents import listing, plural
from modtf.analysis.figures.base import Picture
from modtf.analysis.figures.panels import Mark, panels
from modtf.analysis.labels import RANDOM
from modtf.analysis.random_baseline import random_baseline
from modtf.analysis.study import Study
from modtf.analysis.summary import summarise
from modtf.results import KIND, VARIANTS

OVER = (*KIND, "num_rules", "width")  # what a mean may be over, besides tasks and seeds


def average(
    study: Study, rows: pd.DataFrame, by: Sequence[str], *said: str, random: bool = False
) -> tuple[pd.DataFrame, str]:
    """The mean and interval for every combination of `by`, over kinds, R and widths that are not in it.

    Args:
        study: the rows come from.
        rows: results of it, with labels.
        by: columns, "variant" among them. Where the variants of a point were run with different sizes,
            those that all of them have are kept.
        said: goes into the note.
        random: adds the variant "random", modules picked at random.

    Returns:
        What `summarise` gives, and a note: how many models, which intervals, checkpoint, what is missing.
    """
    point = [name for name in by if name != "variant"]
    over = [name for name in OVER if name not in by]
    wanted = rows.groupby(point, observed=True)["variant"].transform("nunique")
    kept = rows[rows.groupby([*point, *over], observed=True)["variant"].transform("nunique") == wanted]
    summary = summarise(kept, by, over, level=study.level)
    lacking = missing(summary)
    if (summary.groupby(point, observed=True)["num_models"].nunique() > 1).any():
        lacking.append("variants stand on unequal numbers of models")
    absent = len(summary[point].drop_duplicates()) * summary["variant"].nunique() - len(summary)
    if absent:
        lacking.append(f"{absent} point{'s are' if absent > 1 else ' is'} not run")
    if len(kept) < len(rows):
        lacking.append("sizes that not all variants were run with are left out")
    text = note(study, [counts(study, summary), *sizes(kept, point), *said], lacking)
    if random:
        chance = random_baseline(kept["num_rules"]).set_index(["num_rules", "measure"])["value"]
        drawn = kept.drop_duplicates([*point, *over])
        values = chance.reindex(pd.MultiIndex.from_frame(drawn[["num_rules", "measure"]])).to_numpy()
        means = drawn.assign(mean=values).groupby(point, observed=True)["mean"].mean().reset_index()
        summary = pd.concat(
            [summary.astype({"variant": str}), means.assign(variant=RANDOM)], ignore_index=True
        )
        summary["variant"] = pd.Categorical(summary["variant"], [*rows["variant"].cat.categories, RANDOM])
    return summary, text


def overview_and_widths(
    study: Study,
    rows: pd.DataFrame,
    mark: Mark,
    by: Sequence[str],
    *said: str,
    overview: str | None,
    detail: str,
    name: str,
    title: str,
    random: bool = False,
    **layout: Any,
) -> Iterator[Picture]:
    """A picture of averages, a row for each `overview`; then, where that hides something, one per width.

    Args:
        study, rows, by, said, random: as in `average`.
        mark, name, title, layout: as in `panels`.
        overview, detail: columns: rows of the first picture (None for one row), and of the others.
    """

    def picture(part: pd.DataFrame, row: str | None, suffix: str = "", words: str = "") -> Picture:
        table, text = average(study, part, [*([row] if row else []), *by], *said, random=random)
        return panels(mark, table, name=name + suffix, title=title + words, note=text, row=row, **layout)

    yield picture(rows, overview)
    if len(rows[[detail, "width"]].drop_duplicates()) > (rows[overview].nunique() if overview else 1):
        for width, part in rows.groupby("width"):
            yield picture(part, detail, f"_e{width}", f", width {width}")


def note(study: Study, words: Iterable[str], lacking: Sequence[str] = ()) -> str:
    """A sentence of `words` and the checkpoint, and one on what is missing."""
    text = "; ".join([*words, f"checkpoint {study.checkpoint}"])
    return f"{text[0].upper()}{text[1:]}." + (f" Incomplete: {'; '.join(lacking)}." if lacking else "")


def counts(study: Study, summary: pd.DataFrame, word: str = "model") -> str:
    """How many models and tasks stand behind each mean, and what its interval is."""
    tasks, level = summary["num_tasks"], f"{study.level:.0%} Student's t intervals over tasks"
    interval = level if tasks.max() > 1 else "no intervals, as there is one task"
    return f"each mean over {_span(summary['num_models'], word)} of {_span(tasks, 'task')}; {interval}"


def sizes(kept: pd.DataFrame, point: Sequence[str]) -> list[str]:
    """The widths and R of what is shown, and what means are over."""
    groups = kept.groupby(list(point), observed=True)
    said, means = [], []
    for name, words in {"width": "width ", "num_rules": "R = ", "kind": ""}.items():
        number = groups[name].transform("nunique")
        values = words + listing(kept.loc[number == number.max(), name])
        if name not in point and number.max() > 1:
            means.append(values + " as far as run" * bool(words and number.nunique() > 1))
        elif name not in point and words:
            said.append(words + listing(kept[name]))
    return [*said, *([f"means over {' and over '.join(means)}"] if means else [])]


def missing(summary: pd.DataFrame) -> list[str]:
    """Missing variants, values that are not finite."""
    absent = [name for name in VARIANTS[1:] if name not in set(summary["variant"])]
    lacking = [f"no {', '.join(absent)}"] if absent else []
    if summary["num_missing"].sum():
        lacking.append(f"{summary['num_missing'].sum()} values are not finite and left out")
    return lacking


def _span(numbers: pd.Series, word: str) -> str:
    """ "3 tasks", or "2 to 3 tasks" where they differ."""
    low, high = int(numbers.min()), int(numbers.max())
    return plural(low, word) if low == high else f"{low} to {high} {word}s"
