"""The trained models of a study that may be compared: one protocol per task type, one checkpoint.

Variants may differ in their learning rate: a comparison is fair if each has its own tuned rate.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from modtf.analysis.intervals import LEVEL
from modtf.analysis.labels import (
    family_attribute,
    family_label,
    in_report_order,
    kind_label,
    variant_label,
    with_kinds,
    with_variants,
)
from modtf.analysis.learned import shares_learned
from modtf.analysis.rows import (
    CHOICES,
    activation_rows,
    check_checkpoint,
    parts_of,
    performance_rows,
    select_checkpoint,
    select_protocols,
)
from modtf.analysis.tracking import judge_measures, learned_measures
from modtf.base.checks import check_choice, check_level
from modtf.pages.text import listing, plural
from modtf.results import Activations, CellFolder, find_cells, load_activations, load_history, with_categories
from modtf.results.cells import Source
from modtf.results.load import Progress
from modtf.results.schema import CELL, COLUMNS, CORRECTIONS, ERROR, KIND, MEMBER, SCORE
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


def how_measured(cells: Sequence[CellFolder], checkpoint: str) -> list[str]:
    """Return how a checkpoint was measured, one line for all families with the same protocol.

    Example line:
    "MLP (checkpoint tail): the mean of 10 evaluations in the last 10% of training, each on 10,000 new ..."
    """
    lines: dict[str, list[str]] = {}
    for cell in cells:
        training, sizes = cell.definition.protocol.training, cell.definition.protocol.evaluation
        task = cell.definition.task
        words = f"{sizes.batches * sizes.batch_size:,} test examples per condition; "
        words += f"{sizes.tokens_of(task):,} tokens"
        if checkpoint == "tail":
            epochs, _, number = epochs_of(training)
            each = sizes.smaller(TRAINING_FACTOR)
            examples = f"{each.batches * each.batch_size:,}"
            data = f"{examples} new" if training.tail else f"the same {examples}"
            words = (
                f"the mean of {plural(number, 'evaluation')} in the last {number / epochs:.0%} of training"
            )
            words += f", each on {data} test examples per condition; {each.tokens_of(task):,} tokens"
        families = lines.setdefault(f"{words} for each activation matrix", [])
        if (family := family_label(task.arch)) not in families:
            families.append(family)
    return [f"{', '.join(families)} (checkpoint {checkpoint}): {line}" for line, families in lines.items()]


def how_trained(study: "TrainedModels") -> list[str]:
    """Return the steps, schedule and learning rates of finished cells, one line for all task types alike.

    Example line:
    "MLP regression: 25,000 steps, cosine schedule, learning rates 0.001 (modular), 0.003 (monolithic)"
    """
    rates: dict[tuple[str, str], dict[float, dict[str, set[tuple[int, int]]]]] = {}
    done = study.results.groupby("folder", observed=True)["steps"].first()  # a trainer may take other steps
    for cell in (cell for cell in study.cells if cell.is_finished):
        of, training = cell.cell, cell.definition.protocol.training
        key = (
            kind_label(*(of[name] for name in KIND)),
            f"{done[str(cell.path)]:,} steps, {training.schedule or 'constant'} schedule",
        )
        variants = rates.setdefault(key, {}).setdefault(training.learning_rate, {})
        name, size = variant_label(of["variant"], of["model_options"]), (of["num_rules"], of["width"])
        variants.setdefault(name, set()).add(size)
    lines: dict[str, list[str]] = {}
    times = Counter(kind for kind, _ in rates)
    for (kind, words), by_rate in sorted(rates.items()):
        lines.setdefault(f"{words}, {_rates(by_rate, times[kind] > 1)}", []).append(kind)
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


def _rates(by_rate: Mapping[float, Mapping[str, set[tuple[int, int]]]], named: bool) -> str:
    """Return learning rates, and if there are several, or if `named`, the variants, R and widths that have
    them."""
    if len(by_rate) == 1 and not named:
        return f"learning rate {next(iter(by_rate)):g}"
    times = Counter(name for variants in by_rate.values() for name in variants)
    several = len({width for some in by_rate.values() for sizes in some.values() for _, width in sizes}) > 1
    lists: dict[float, list[str]] = {}
    for rate, variants in sorted(by_rate.items()):
        for name, sizes in variants.items():
            rules, widths = (listing(numbers) for numbers in zip(*sizes, strict=True))
            where = f" at R = {rules}" + f", width {widths}" * several
            lists.setdefault(rate, []).append(name + where * (times[name] > 1))
    shown = ", ".join(f"{rate:g} ({', '.join(names)})" for rate, names in lists.items())
    return f"learning rate{'s' * (len(lists) > 1)} {shown}"


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


Part = TypeVar("Part", bound="TrainedModels")


def _refuse_copies(rows: pd.DataFrame) -> None:
    """Raise `ValueError` if the rows hold a value of a model twice."""
    repeated = rows[rows.duplicated([*MEMBER, *SCORE, "protocol"])]
    if len(repeated):
        one = repeated.iloc[0]
        raise ValueError(
            f"results holds {one['variant']}, task {one['data_seed']}, seed {one['seed']} twice, which would "
            "count twice. Leave the rows of one of the two folders out."
        )


def _default_checkpoint(results: pd.DataFrame, cells: Sequence[CellFolder]) -> str:
    """Return the default of all cells; that of the families if cells differ, or are not known."""
    folders = set(results["folder"].astype(str))
    defaults = {cell.definition.checkpoint for cell in cells if str(cell.path) in folders}
    return defaults.pop() if len(defaults) == 1 else family_attribute(results, "checkpoint")


class TrainedModels:
    """Results, histories and activations of models, and parts of them; `Study` adds tables and figures."""

    def __init__(
        self,
        results: pd.DataFrame,
        history: pd.DataFrame | None = None,
        *,
        checkpoint: str | None = None,
        protocols: Sequence[str] = (),
        cells: Sequence[CellFolder] = (),
        level: float = LEVEL,
        progress: Progress = iter,
    ):
        # Older tables have no place.
        needed = [name for name in (*COLUMNS, "protocol", "folder") if name != "place"]
        is_table = isinstance(results, pd.DataFrame)
        if lacking := [name for name in needed if name not in results] if is_table else ["all"]:
            raise ValueError(
                f"results does not have the columns {', '.join(lacking)}; expected the table that "
                "modtf.load_results returns."
            )
        check_level(level)
        results = results.reset_index(drop=True)  # tables that were joined may name a row twice
        rows = select_protocols(with_categories(results), protocols)
        self.checkpoint = checkpoint if checkpoint is not None else _default_checkpoint(rows, cells)
        self._every = with_kinds(with_variants(rows))  # all checkpoints
        self.results = select_checkpoint(self._every, self.checkpoint)
        check_checkpoint(self._every, self.checkpoint)
        _refuse_copies(self.results)
        self.level = level
        self.cells = [cell for cell in cells if not protocols or cell.protocol in protocols]
        self._progress = progress
        # (parent study, values that select this part), so that histories are read once
        self._whole: tuple[Any, Mapping[str, Sequence[Any]]] | None = None
        if history is not None:
            history = _keep(history, {"protocol": protocols}) if protocols else history
            self.history = with_kinds(with_variants(with_categories(history)))

    @cached_property
    def history(self) -> pd.DataFrame:
        """The evaluations during training, as `load_history` gives them."""
        if self._whole is not None:
            whole, wanted = self._whole
            return _keep(whole.history, wanted) if wanted else whole.history
        return with_kinds(with_variants(load_history(self.cells, self._progress)))

    @cached_property
    def performance(self) -> pd.DataFrame:
        """The performance in the two headline conditions, see `performance_rows`."""
        return performance_rows(self.results)

    @property
    def whole(self) -> "TrainedModels":
        """Return the study that this is a part of, at the same checkpoint; itself, if it is whole."""
        return self._whole[0].whole if self._whole is not None and self._whole[1] else self

    @cached_property
    def missing(self) -> pd.DataFrame:
        """Return the requested cells that are absent, see `find_missing`."""
        return find_missing(self.cells)

    @cached_property
    def judged_measures(self) -> pd.DataFrame:
        """Return which measures track specialisation, see `judge_measures`; it reads all matrices."""
        return judge_measures(learned_measures(self), self.level)

    @cached_property
    def learned(self) -> pd.DataFrame:
        """Return how much of the best constant answer's loss the best variant lost, see `shares_learned`."""
        return shares_learned(self)

    @cached_property
    def diverged(self) -> pd.DataFrame:
        """The models whose performance is not finite."""
        return diverged(self.results)

    @cached_property
    def variants(self) -> list[str]:
        """The variants from least to most informed, those of users last."""
        names = set(self.results["variant"].unique())
        return [name for name in self.results["variant"].cat.categories if name in names]

    @property
    def places(self) -> list[str]:
        """The routed layers; a single one has the name ""."""
        return activation_rows(self.results)["place"].astype(str).unique().tolist() or [""]

    @property
    def kinds(self) -> list[tuple[str, ...]]:
        """The task types (arch, setting, task_options), in the order of the report."""
        kinds = self.results[list(KIND)].drop_duplicates()
        return in_report_order(kinds.itertuples(index=False, name=None))

    @property
    def checkpoints(self) -> list[str]:
        """Return the checkpoints in the results, "pooled" among them if it can be made."""
        names = {*self._every["checkpoint"].unique(), self.checkpoint}
        return [name for name in CHOICES if names.issuperset(parts_of(name)) or name == self.checkpoint]

    def at(self: Part, checkpoint: str) -> Part:
        """Return the same models at another checkpoint; raise `ValueError` if the results do not hold it."""
        if checkpoint == self.checkpoint:
            return self
        if self._whole is not None and self._whole[1]:
            return self._whole[0].at(checkpoint)._part(self._whole[1])
        other = self._part({})
        other.checkpoint, other.results = checkpoint, select_checkpoint(self._every, checkpoint)
        return other

    def part(self: Part, *kind: str, **values: Sequence[Any]) -> Part:
        """Return the part of one task type (arch, setting, task_options), or with some values in columns.

        Raise `ValueError` for a column or a value that no cell has.

        Example:
            >>> study.part(*study.kinds[0]).part(variant=["modular"])  # doctest: +SKIP
        """
        named = zip(KIND, ([each] for each in (*kind, "")), strict=False) if kind else ()
        wanted = {**dict(named), **values}
        for name, some in wanted.items():
            check_choice("column", name, CELL)
            if isinstance(some, str):
                raise ValueError(f"{name}={some!r} is not valid; expected a list of values.")
            known = [*self.results[name].unique()]
            if not set(some) <= set(known):  # cells that are not finished have no results
                known += [values[name] for _, values in self._named_cells()]
            for value in some:
                check_choice(name, value, dict.fromkeys(known))
        return self._part(wanted)

    @property
    def by_kind(self: Part) -> list[Part]:
        """The parts of the study, one per task type."""
        return [self.part(*kind) for kind in self.kinds]

    def _named_cells(self) -> list[tuple[CellFolder, dict[str, Any]]]:
        return [(cell, {**cell.cell, "variant": _name(cell)}) for cell in self.cells]

    def _part(self: Part, wanted: Mapping[str, Sequence[Any]]) -> Part:
        part = copy(self)
        for name, value in vars(TrainedModels).items():
            if isinstance(value, cached_property):
                part.__dict__.pop(name, None)
        named = self._named_cells()
        part.cells = [cell for cell, values in named if all(values[name] in wanted[name] for name in wanted)]
        part.results, part._whole = _keep(self.results, wanted) if wanted else self.results, (self, wanted)
        return part

    def activations(self, place: str = "", **chosen: Any) -> Iterator[Activations]:
        """Yield the activation matrices of cells, one after the other.

        Args:
            place: the routed layer of a model with several.
            **chosen: values of the cells to read. `variant` is the name in the study, options included.

        Example:
            >>> next(study.activations(variant="modular", num_rules=8)).at("tail")  # doctest: +SKIP
        """
        variant = chosen.pop("variant", None)
        for cell in self.cells:
            name = _name(cell)
            if variant in (None, name):
                for activations in load_activations([cell], place, **chosen):
                    yield replace(
                        activations,
                        cell={**activations.cell, "router": cell.cell["variant"], "variant": name},
                    )


def _name(cell: CellFolder) -> str:
    return variant_label(cell.cell["variant"], cell.cell["model_options"])


def _keep(frame: pd.DataFrame, wanted: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    keep = [frame[name].isin(list(values)) for name, values in wanted.items()]
    return frame[np.logical_and.reduce(keep)]
