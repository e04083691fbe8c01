"""The models of a study, loaded: one protocol for every kind of task, one checkpoint."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import pandas as pd

from modtf.analysis import contents
from modtf.analysis.intervals import LEVEL
from modtf.analysis.labels import in_report_order, variant_label, with_variants
from modtf.analysis.missing import find_missing
from modtf.analysis.performance import performance_rows
from modtf.analysis.select import check_results, select_checkpoint, select_protocols
from modtf.checks import check_number
from modtf.results import Activations, CellFolder, load_activations, load_history
from modtf.results.load import Progress, with_categories
from modtf.results.schema import KIND

Part = TypeVar("Part", bound="LoadedStudy")
Keep = Callable[[pd.DataFrame], pd.DataFrame]


class LoadedStudy:
    """Results and histories that may be compared, and their parts; `Study` says what they show."""

    def __init__(
        self,
        results: pd.DataFrame,
        history: pd.DataFrame | None = None,
        *,
        checkpoint: str = "tail",
        protocols: Sequence[str] = (),
        cells: Sequence[CellFolder] = (),
        level: float = LEVEL,
        progress: Progress = iter,
    ):
        check_results(results)
        check_number("level", level, 0.0, 1.0)
        rows = select_checkpoint(select_protocols(with_categories(results), protocols), checkpoint)
        self.results = with_variants(rows)
        self.checkpoint = checkpoint
        self.level = level
        self.cells = [cell for cell in cells if not protocols or cell.protocol in protocols]
        self._progress = progress
        self._whole: tuple[LoadedStudy, Keep] | None = (
            None  # of which this is a part: histories are read once
        )
        if history is not None:
            self.history = with_variants(with_categories(history))

    @cached_property
    def history(self) -> pd.DataFrame:
        """The evaluations during training, as `load_history` gives them."""
        if self._whole is not None:
            return self._whole[1](self._whole[0].history)
        return with_variants(load_history(self.cells, self._progress))

    @cached_property
    def performance(self) -> pd.DataFrame:
        """The performance in the two headline conditions, see `performance_rows`."""
        return performance_rows(self.results)

    @cached_property
    def missing(self) -> pd.DataFrame:
        """What is missing from the grid that the cells span, see `find_missing`."""
        return find_missing(self.cells)

    @cached_property
    def judged_measures(self) -> pd.DataFrame:
        """Which measures track specialisation, see `modtf.analysis.judge_measures`; reads all matrices."""
        from modtf.analysis.judged import judge_measures
        from modtf.analysis.learned import learned_measures

        return judge_measures(learned_measures(self), self.level)

    @cached_property
    def diverged(self) -> pd.DataFrame:
        """The models whose performance is no finite number."""
        return contents.diverged(self.results)

    @cached_property
    def variants(self) -> list[str]:
        """From least to most informed, those of users behind."""
        found = set(self.results["variant"].unique())
        return [name for name in self.results["variant"].cat.categories if name in found]

    @property
    def kinds(self) -> list[tuple[str, ...]]:
        """(arch, setting, task_options), in the order of the report."""
        found = self.results[list(KIND)].drop_duplicates()
        return in_report_order(found.itertuples(index=False, name=None))

    def of_kind(self: Part, arch: str, setting: str, task_options: str = "") -> Part:
        """The part of one kind of task."""
        wanted = dict(zip(KIND, (arch, setting, task_options), strict=True))
        cells = [cell for cell in self.cells if all(cell.cell[name] == v for name, v in wanted.items())]
        return self._part(lambda frame: where(frame, wanted), cells)

    def of_variants(self: Part, variants: Sequence[str]) -> Part:
        """The part of some variants, by the names that the study gives them."""
        cells = [cell for cell in self.cells if _name(cell) in variants]
        return self._part(lambda frame: frame[frame["variant"].isin(list(variants))], cells)

    def _part(self: Part, keep: Keep, cells: Sequence[CellFolder]) -> Part:
        part = copy(self)
        for cached in ("history", "performance", "missing", "judged_measures", "diverged", "variants"):
            part.__dict__.pop(cached, None)
        part.cells, part.results, part._whole = list(cells), keep(self.results), (self, keep)
        return part

    def activations(self, **chosen: Any) -> Iterator[Activations]:
        """The activation matrices of cells, one after the other.

        Args:
            **chosen: values of the cells to read, `variant` as the study names it, options included.

        Example:
            >>> next(study.activations(variant="modular", num_rules=8)).at("tail")  # doctest: +SKIP
        """
        variant = chosen.pop("variant", None)
        for cell in self.cells:
            name = _name(cell)
            if variant in (None, name):
                for found in load_activations([cell], **chosen):
                    yield replace(found, cell={**found.cell, "router": cell.cell["variant"], "variant": name})


def _name(cell: CellFolder) -> str:
    return variant_label(cell.cell["variant"], cell.cell["model_options"])


def where(frame: pd.DataFrame, wanted: dict[str, Any]) -> pd.DataFrame:
    """The rows that have all these values; raises `ValueError` on a column that there is not."""
    unknown = set(wanted) - set(frame)
    if unknown:
        raise ValueError(f"The results have no column {unknown.pop()!r}; they have {', '.join(frame)}.")
    keep = pd.Series(True, frame.index)
    for name, value in wanted.items():
        if not pd.api.types.is_scalar(value):
            raise ValueError(f"{name}={value!r} is not valid; expected one value of the column.")
        keep &= frame[name] == value
    return frame[keep]
