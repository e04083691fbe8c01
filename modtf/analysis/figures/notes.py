"""Says in words how many models a figure stands on and what it lacks."""

import pandas as pd

from modtf.results.schema import VARIANTS
from modtf.analysis.study import Study


def models(summary: pd.DataFrame) -> str:
    """How many models, tasks and seeds stand behind the points of a summary."""
    tasks, counts = summary["num_tasks"], summary["num_models"]
    point = span(counts, "model")
    return f"{point} per point ({span(tasks, 'task')})"


def intervals(summary: pd.DataFrame, study: Study) -> str:
    """What the error bars are, where there are any."""
    if (summary["num_models"] <= 1).all():
        return "single models: no intervals"
    text = f"{study.bootstrap.level:.0%} bootstrap intervals over tasks and seeds"
    if (summary["num_tasks"] <= 1).all():
        text = f"{study.bootstrap.level:.0%} bootstrap intervals over seeds alone: there is one task"
    elif (summary["num_models"] <= summary["num_tasks"]).all():
        text = f"{study.bootstrap.level:.0%} bootstrap intervals over tasks alone: there is one seed each"
    return text


def lacks(summary: pd.DataFrame, expected: tuple[str, ...] = VARIANTS) -> list[str]:
    """Missing variants, values that are not finite, and unequal numbers of models."""
    notes = []
    absent = [name for name in expected if name not in set(summary["variant"])]
    if absent:
        notes.append(f"no {', '.join(absent)}")
    if "num_missing" in summary and summary["num_missing"].sum():
        notes.append(f"{int(summary['num_missing'].sum())} values are not finite and left out")
    if summary["num_models"].nunique() > 1:
        notes.append("points stand on unequal numbers of models")
    return notes


def points_lack(summary: pd.DataFrame, panel: list[str], x: str, words: str) -> list[str]:
    """Points of the grid of every panel (x by variant) that are absent, and an x with one value."""
    notes = []
    if summary[x].nunique() == 1:
        notes.append(f"only {words} = {summary[x].iloc[0]:g} was run")
    absent = 0
    for _, rows in summary.groupby(panel):
        absent += rows[x].nunique() * summary["variant"].nunique() - len(
            rows[[x, "variant"]].drop_duplicates()
        )
    if absent:
        notes.append(f"{absent} points are not run")
    return notes


def note(study: Study, summary: pd.DataFrame, *parts: str, lacking: list[str] | None = None) -> str:
    """The note of a figure: models, intervals, checkpoint, further parts, what is missing."""
    sentences = [models(summary), intervals(summary, study), f"checkpoint {study.checkpoint}", *parts]
    text = "; ".join(part for part in sentences if part) + "."
    missing = lacks(summary) if lacking is None else lacking
    return text[0].upper() + text[1:] + (f" Incomplete: {'; '.join(missing)}." if missing else "")


def averaged_over(kept: pd.DataFrame, column: str) -> str:
    """The values of a column that means are over: one list, or one for each kind where they differ."""
    found = {kind: ", ".join(map(str, sorted(rows[column].unique()))) for kind, rows in kept.groupby("kind")}
    if len(set(found.values())) == 1:
        return next(iter(found.values()))
    return "; ".join(f"{values} ({str(kind).replace(chr(10), ' ')})" for kind, values in found.items())


def span(numbers: pd.Series, word: str) -> str:
    """ "3 tasks", or "2 to 3 tasks" where they differ."""
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low} {word}{'s' * (low != 1)}" if low == high else f"{low} to {high} {word}s"
