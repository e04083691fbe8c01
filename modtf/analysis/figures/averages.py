"""Rows and means for a picture, over the same sizes for every variant, and a note on the data behind them."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pandas as pd

from modtf.analysis.figures.layout import panels
from modtf.analysis.intervals import WEIGHTS, have_other_tasks, intervals, refuse_mixtures
from modtf.analysis.labels import RANDOM, categorise, family_label, with_kinds
from modtf.analysis.rows import OUT, activation_rows, headline_label, performance_rows, random_baseline
from modtf.analysis.trained import TrainedModels
from modtf.metrics import MEASURES, activation_measures
from modtf.pages.pictures import NothingToDraw, Picture, Pictures
from modtf.pages.text import listing, percent_of, plural, span
from modtf.results import KIND
from modtf.tasks.families import FAMILIES

OVER = (*KIND, "num_rules", "width", "protocol")  # columns that a mean may average over, besides seeds
BETTER = {True: "", False: " (larger is better)", None: " (neither end is better)"}
SHOWN = {"width": "width ", "num_rules": "R = ", "kind": ""}  # the prefix of each in a note


def performance(frame: pd.DataFrame, headline: bool = True) -> pd.DataFrame:
    """Return `performance_rows` with labels; raise `NothingToDraw` if there are none.

    The labels are `title` ("MHA"), `family` ("MHA v2"), `kind` ("MHA v2 regression") and `panel` ("MHA v2
    regression: Loss"). Headline rows also have `where` ("regression: in distribution: Loss").
    """
    rows = with_kinds(performance_rows(frame, headline)) if len(frame) else frame
    if rows.empty:
        raise NothingToDraw("no loss or error is in the results; give the folder of finished cells")
    rows["title"] = categorise(rows, ["arch"], lambda arch: FAMILIES[arch].title)
    rows["family"] = categorise(rows, ["arch", "task_options"], family_label)
    rows["panel"] = categorise(rows, ["kind", "measure"], _label)
    if headline:
        rows["where"] = categorise(rows, ["setting", "distribution", "measure"], _label)
    return rows


def activation(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the activation measures of models with several modules and of random routing, with a `label`.

    Raises `NothingToDraw` if there are none."""
    rows = activation_rows(frame)
    if rows.empty:
        raise NothingToDraw("no variant with several modules was run; --variant=modular has them")
    single = rows[rows["place"] == ""]  # each of several routed layers has its own R and M
    sizes = single.drop_duplicates([*KIND, "num_rules", "num_modules", "width", "measure"])
    chance = random_baseline(single["num_rules"], list(single["num_modules"]))
    chance = sizes.drop(columns=["variant", "value"]).merge(
        chance, on=["num_rules", "num_modules", "measure"]
    )
    chance["data_seed"] = rows["data_seed"].iloc[0]  # the same everywhere, so that sizes weigh alike
    variants = [*rows["variant"].cat.categories, *chance["variant"].unique()]
    both = pd.concat([rows, chance.assign(model_options="")], ignore_index=True)
    both["variant"] = pd.Categorical(both["variant"].astype(str), variants)
    both["measure"] = pd.Categorical(both["measure"].astype(str), [m.name for m in activation_measures()])
    return both.assign(label=categorise(both, ["measure", "place"], _label))


def _label(*values: str) -> str:
    """("regression", "loss") -> "regression: Loss", ("alignment", "encoder") -> "Alignment: encoder"."""
    words = []
    for value in filter(None, values):
        measure = MEASURES.get(value)
        words.append(measure.axis_label + BETTER[measure.smaller_is_better] if measure else value)
    return ": ".join(words)


def average(
    study: TrainedModels, rows: pd.DataFrame, by: Sequence[str], *notes: str, x: str | None = None
) -> tuple[pd.DataFrame, str]:
    """Return mean and interval for every combination of `by`, over the other task types, R and widths.

    Args:
        study: the study that the rows come from.
        rows: the rows to average.
        by: columns, "variant" among them. If the variants of a point were run with different sizes, keep the
            sizes that all variants have. If there are none, keep the variants that have all sizes.
        notes: more parts of the note.
        x: the column of `by` on the horizontal axis, if there is one.

    Returns:
        The table of `summarise`, and a note: number of models, intervals, checkpoint, missing cells.

    Raises:
        NothingToDraw: if no size has all variants and no variant has all sizes.
    """
    point = [name for name in by if name != "variant"]
    over = [name for name in OVER if name not in by]
    size = [name for name in over if name != "protocol"]  # tuned variants differ in their protocol
    sized = rows.reset_index(drop=True)
    sized["_size"] = sized.groupby(size, observed=True).ngroup() if size else 0
    run = sized[~_is_random(sized)]
    whole = _number(run, [*point, "_size"], "variant") == _number(run, point, "variant")
    has_whole = whole.groupby([run[name] for name in point], observed=True).transform("any")
    everywhere = _number(run, [*point, "variant"], "_size") == _number(run, point, "_size")
    kept = run[whole | (~has_whole & everywhere)]
    if kept.empty:
        raise NothingToDraw(
            f"no number of rules, width and kind was run with all of {listing(run['variant'])}; choose with "
            "--variant, or give fewer folders"
        )
    drawn = _with_random(kept, sized, point)
    refuse_mixtures(drawn, by, over)
    summary = intervals(drawn, by, level=study.level)
    models = summary[~_is_random(summary)]
    missing = lacking(models, point)
    missing += ["sizes that some variants lack are left out"] if (has_whole & ~whole).any() else []
    left = listing(run.loc[~has_whole & ~everywhere, "variant"])
    missing += ["variants have different tasks or seeds"] if _have_other_members(kept, point, size) else []
    weights = WEIGHTS + " (random: every size)" * (len(models) < len(summary))
    missing += [weights] * have_other_tasks(kept, by, ["_size"])
    line = [name for name in point if name != x]
    unlike = x in OVER and (_number(kept, point, "_size") != _number(kept, line, "_size")).any()
    missing += ["points of a line are over different sizes or task types"] * bool(unlike)
    missing += [f"left out, because they were not run with all sizes: {left}"] if left else []
    checkpoint = [] if "step" in by else [f"checkpoint {study.checkpoint}"]
    words = [counts(study, models), *sizes(kept, point), *notes, *checkpoint]
    return summary, note(words, missing)


def _with_random(kept: pd.DataFrame, sized: pd.DataFrame, point: Sequence[str]) -> pd.DataFrame:
    """Return `kept`, and random routing at the same sizes: each label of it that has all of them."""
    group = sized.groupby([*point, "_size"], observed=True).ngroup()
    is_random = _is_random(sized) & group.isin(group[kept.index])
    both = sized[sized.index.isin(kept.index) | is_random]
    all_sizes = _number(both, [*point, "variant"], "_size") == _number(both, point, "_size")
    return both[all_sizes | ~is_random[both.index]]


def _have_other_members(rows: pd.DataFrame, point: Sequence[str], size: Sequence[str]) -> bool:
    """Return whether variants of one point and size were run on different tasks or seeds."""
    rows = rows.assign(member=rows.groupby(["data_seed", "seed"]).ngroup())
    by = [*point, *size]
    return bool((_number(rows, by, "member") != _number(rows, [*by, "variant"], "member")).any())


def _is_random(rows: pd.DataFrame) -> pd.Series:
    """Return which rows `random_baseline` made, by its labels alone: a router may be named "random_top_2"."""
    return rows["variant"].astype(str).str.fullmatch(rf"{RANDOM}( \(\d+ modules\))?")


def _number(rows: pd.DataFrame, by: Sequence[str], name: str) -> pd.Series:
    """Return, for each row, the number of values of a column among the rows that agree with it in `by`."""
    return rows.groupby(list(by), observed=True)[name].transform("nunique")


def means(
    study: TrainedModels,
    rows: pd.DataFrame,
    mark: Callable[..., object],
    x: str | None,
    name: str,
    title: str,
    *notes: str,
    row: str | None = None,
    column: str | None = None,
) -> Picture:
    """Return a picture of averages: `average`, then `panels`.

    Args:
        study, rows, notes: as in `average`; rows have the columns `measure` and `kind`.
        mark: `lines`, `curves` or `bars`, or another `mark(axes, part, looks, x)`.
        x: column on the horizontal axis; None for a mark that takes none.
    """
    by = dict.fromkeys([row, "measure", column, x, "variant"])
    table, text = average(study, rows, [name for name in by if name], *notes, x=x)
    return panels(partial(mark, x=x) if x else mark, table, name, title, text, row, column)


def overview_and_widths(
    study: TrainedModels, rows: pd.DataFrame, *drawn: Any, overview: str | None, detail: str, column: str
) -> Pictures:
    """Yield `means` with a row for each `overview`; if it hides something, then one per width by `detail`."""
    mark, x, name, title, *notes = drawn
    averaged, left, pictures = rows, [], []
    if x and not overview:  # keep task types that were run at every x; else a line bends where one ends
        whole = _number(rows, ["kind"], x) == rows[x].nunique()
        averaged, others = rows[whole], listing(rows.loc[~whole, "kind"])
        left = [f"left out, because not run with {SHOWN[x]}{listing(rows[x])}: {others}"] * bool(others)
    if len(averaged):
        pictures.append(partial(means, study, averaged, *drawn, *left, row=overview, column=column))
    if len(rows[[detail, "width"]].drop_duplicates()) > (rows[overview].nunique() if overview else 1):
        for width, part in rows.groupby("width"):
            named = (f"{name}_e{width}", f"{title}, width {width}", *notes)
            pictures.append(partial(means, study, part, mark, x, *named, row=detail, column=column))
    return drawable(pictures)


def drawable(pictures: Iterable[Callable[[], Picture]]) -> Pictures:
    """Return the pictures of a figure that can be drawn.

    Raises `NothingToDraw` with the first reason if none can."""
    reasons, drawn = [], 0
    for draw in pictures:
        try:
            picture = draw()
        except NothingToDraw as reason:
            reasons.append(reason)
        else:
            drawn += 1
            yield picture
    if reasons and not drawn:
        raise reasons[0]


def note(words: Iterable[str], missing: Sequence[str] = ()) -> str:
    """Return a sentence of `words`, and one on missing data."""
    text = "; ".join(words)
    return f"{text[0].upper()}{text[1:]}." + (f" Incomplete: {'; '.join(missing)}." if missing else "")


def counts(study: TrainedModels, summary: pd.DataFrame, word: str = "model") -> str:
    """Return how many models and tasks are behind each mean, and what its interval is."""
    spans = [span(summary["num_models"], word), span(summary["num_tasks"], "task")]
    several = summary["num_tasks"].max() > 1
    over = f"{percent_of(study.level)} Student's t intervals over tasks" if several else "no intervals"
    return f"each mean over {' of '.join(spans)}; {over}"


def sizes(kept: pd.DataFrame, point: Sequence[str]) -> list[str]:
    """Return the widths and R, or those that a mean is over, and the out-of-distribution condition."""
    words = []
    for name, word in ((name, word) for name, word in SHOWN.items() if name not in point):
        mixed = kept.loc[_number(kept, point, name) > 1, name]
        if len(mixed):
            words += [f"means over {word}{listing(mixed)}"]
        elif word:
            words += [word + listing(kept[name])]
    if "distribution" in kept and (kept["distribution"] == OUT).any():
        archs = kept["arch"].drop_duplicates().sort_values()
        words += [f"out of distribution ({FAMILIES[arch].title}): {headline_label(arch)}" for arch in archs]
    return words


def lacking(summary: pd.DataFrame, point: Sequence[str]) -> list[str]:
    """Return the missing points, values that are not finite, and unequal numbers of models, for a note."""
    points = len(summary[list(point)].drop_duplicates()) * summary["variant"].nunique() - len(summary)
    unequal = (summary.groupby(list(point), observed=True)["num_models"].nunique() > 1).any()
    missing = [f"{plural(points, 'point')} not run"] * bool(points) + lost(summary)
    return [*missing, *["variants have different numbers of models"] * bool(unequal)]


def lost(summary: pd.DataFrame) -> list[str]:
    """Return the number of values that are not finite, for a note."""
    number = int(summary["num_missing"].sum())
    verb = "is" if number == 1 else "are"
    return [f"left out: {plural(number, 'value')} that {verb} not finite"] * bool(number)
