"""The contents of a study: its models, those that diverged, and those that are missing."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from modtf.analysis.labels import family_label, kind_label, variant_label, with_kinds
from modtf.analysis.rows import performance_rows
from modtf.pages.text import listing, plural
from modtf.results import CellFolder, find_cells
from modtf.results.cells import Source
from modtf.results.schema import CELL, CORRECTIONS, ERROR, KIND, MEMBER
from modtf.tasks.cell import Cell
from modtf.tasks.families import IID
from modtf.tasks.protocol import TRAINING_FACTOR
from modtf.training.arithmetic import epochs_of


def contents(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per task type: what the results of a study contain, and how many models diverged."""
    lost = with_kinds(diverged(results)).groupby("kind", observed=False).size()
    rows = [
        (
            *(kind, listing(models["num_rules"]), listing(models["width"]), listing(models["variant"])),
            *(models["data_seed"].nunique(), models["seed"].nunique(), models["folder"].nunique()),
            *(len(models), int(lost.get(kind, 0)), listing(models["protocol"])),
        )
        for kind, models in results.drop_duplicates([*MEMBER, "protocol"]).groupby("kind", observed=True)
    ]
    names = ["kind", "R", "widths", "variants", "tasks", "seeds", "cells", "models", "diverged", "protocol"]
    return pd.DataFrame(rows, columns=names)


def diverged(results: pd.DataFrame) -> pd.DataFrame:
    """Return the models whose performance in distribution is not finite: columns `MEMBER` and `folder`."""
    rows = performance_rows(results, headline=False)
    rows = rows[(rows["condition"] == IID) & ~np.isfinite(rows["value"])]
    return rows.drop_duplicates(list(MEMBER))[[*MEMBER, "folder"]].reset_index(drop=True)


def describe(results: pd.DataFrame, checkpoint: str, num_missing: int | None) -> str:
    """Return the description that a notebook shows of a study."""
    table = contents(results)
    models, cells = plural(table["models"].sum(), "model"), plural(table["cells"].sum(), "cell")
    lines = [f"Study of {models} in {cells}, checkpoint {checkpoint}"]
    models_of_cell = with_kinds(results).drop_duplicates(list(MEMBER)).groupby(["kind", *CELL], observed=True)
    fewest = models_of_cell.size().groupby("kind", observed=True).min()
    for row in table.itertuples():
        grid = f"R = {row.R}; width {row.widths}; {row.variants}"
        members = f"{plural(row.tasks, 'task')} x {plural(row.seeds, 'seed')}"
        members = "up to " * int(fewest[row.kind] < row.tasks * row.seeds) + members
        lost = f"; {row.diverged} diverged" if row.diverged else ""
        lines.append(f"  {row.kind}: {grid}; {members}{lost}")
    if num_missing is not None:
        missing = plural(num_missing, "cell") if num_missing else "nothing"
        lines.append(f"  requested and missing: {missing}")
    return "\n".join(lines)


def how_measured(cells: Sequence[CellFolder], checkpoint: str) -> list[str]:
    """Return how a checkpoint was measured, one line for all families with the same protocol.

    Example line:
    "MLP (checkpoint tail): the mean of 10 evaluations in the last 10% of training, each on 10,000 new ..."
    """
    lines: dict[str, list[str]] = {}
    for cell in cells:
        training, sizes = cell.definition.protocol.training, cell.definition.protocol.evaluation
        words = f"{sizes.batches * sizes.batch_size:,} test examples per condition; {sizes.tokens:,} tokens"
        if checkpoint == "tail":
            epochs, _, number = epochs_of(training)
            each = sizes.smaller(TRAINING_FACTOR)
            examples = f"{each.batches * each.batch_size:,}"
            data = f"{examples} new" if training.tail else f"the same {examples}"
            words = (
                f"the mean of {plural(number, 'evaluation')} in the last {number / epochs:.0%} of training"
            )
            words += f", each on {data} test examples per condition; {each.tokens:,} tokens"
        families = lines.setdefault(f"{words} for each activation matrix", [])
        if (family := family_label(cell.definition.task.arch)) not in families:
            families.append(family)
    return [f"{', '.join(families)} (checkpoint {checkpoint}): {line}" for line, families in lines.items()]


def how_trained(cells: Sequence[CellFolder]) -> list[str]:
    """Return the steps, schedule and learning rates of finished cells, one line for all task types alike.

    Example line:
    "MLP regression: 25,000 steps, cosine schedule, learning rates 0.001 (modular), 0.003 (monolithic)"
    """
    rates: dict[tuple[str, str], dict[float, dict[str, set[tuple[int, int]]]]] = {}
    for cell in (cell for cell in cells if cell.is_finished):
        of, training = cell.cell, cell.definition.protocol.training
        key = (
            kind_label(*(of[name] for name in KIND)),
            f"{training.steps:,} steps, {training.schedule or 'constant'} schedule",
        )
        variants = rates.setdefault(key, {}).setdefault(training.learning_rate, {})
        name, size = variant_label(of["variant"], of["model_options"]), (of["num_rules"], of["width"])
        variants.setdefault(name, set()).add(size)
    lines: dict[str, list[str]] = {}
    for (kind, words), by_rate in sorted(rates.items()):
        lines.setdefault(f"{words}, {_rates(by_rate)}", []).append(kind)
    return [f"{', '.join(kinds)}: {line}" for line, kinds in lines.items()]


def how_corrected(cells: Sequence[CellFolder]) -> list[str]:
    """Return what was corrected in the results of finished cells after training, one line a correction."""
    made = [one for cell in cells if cell.is_finished for one in cell.corrections]
    counts = Counter((one["measure"], one["commit"], one["change"]) for one in made)
    return [
        f"{measure} of {plural(number, 'cell')} was corrected after training (commit {commit}): {change}. "
        f"{CORRECTIONS} holds the old values"
        for (measure, commit, change), number in counts.items()
    ]


def _rates(by_rate: Mapping[float, Mapping[str, set[tuple[int, int]]]]) -> str:
    """Return learning rates, and if there are several the variants, R and widths that have them."""
    if len(by_rate) == 1:
        return f"learning rate {next(iter(by_rate)):g}"
    times = Counter(name for variants in by_rate.values() for name in variants)
    several = len({width for some in by_rate.values() for sizes in some.values() for _, width in sizes}) > 1
    named: dict[float, list[str]] = {}
    for rate, variants in sorted(by_rate.items()):
        for name, sizes in variants.items():
            rules, widths = (listing(numbers) for numbers in zip(*sizes, strict=True))
            where = f" at R = {rules}" + f", width {widths}" * several
            named.setdefault(rate, []).append(name + where * (times[name] > 1))
    return "learning rates " + ", ".join(f"{rate:g} ({', '.join(names)})" for rate, names in named.items())


def stands_on(cells: Sequence[CellFolder], checkpoint: str, table: str) -> str:
    """Return a Markdown table below the lines of `how_measured`."""
    return "\n".join(f"*{line}*  " for line in how_measured(cells, checkpoint)) + f"\n\n{table}"


def whole_kinds(cells: Sequence[CellFolder], planned: Sequence[Cell]) -> list[CellFolder]:
    """Return the finished cells of the task types whose planned cells are all finished."""
    finished = [cell for cell in cells if cell.is_finished]
    hashes = {cell.definition.hash for cell in finished}
    partial = {(cell.task.arch, cell.task.setting) for cell in planned if cell.hash not in hashes}
    return [cell for cell in finished if (cell.cell["arch"], cell.cell["setting"]) not in partial]


def find_missing(directory: Source) -> pd.DataFrame:
    """Return the requested cells that are absent. Every command records its cells before it begins.

    Returns:
        One row per absent cell: the columns of `CELL` ("" and 0 if a damaged config lacks them), `status`
        ("damaged", "failed" or "unfinished") and `detail`. No rows if nothing is missing.

    Raises:
        FileNotFoundError: as `find_cells`.
        ValueError: as `find_cells`.
    """
    cells = [cell for cell in find_cells(directory) if not cell.is_finished]
    rows = [(*cell.cell.values(), *_why(cell)) for cell in cells]
    return pd.DataFrame(rows, columns=[*CELL, "status", "detail"])


def _why(cell: CellFolder) -> tuple[str, str]:
    if cell.damage:
        return "damaged", f"{cell.path}: {cell.damage}"
    failed = cell.path / ERROR
    return ("failed", f"{failed} says why") if failed.is_file() else ("unfinished", str(cell.path))
