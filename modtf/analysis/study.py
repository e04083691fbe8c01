"""A study: results that may be compared with each other, and every table and figure of them."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from modtf.analysis import contents
from modtf.analysis.intervals import LEVEL
from modtf.analysis.labels import in_report_order, variant_label, with_variants
from modtf.analysis.missing import find_missing
from modtf.analysis.performance import performance_rows
from modtf.analysis.select import select_checkpoint, select_protocols
from modtf.analysis.summary import summarise
from modtf.results import Activations, CellFolder, find_cells, load_activations, load_history, load_results
from modtf.results.load import Progress, with_categories
from modtf.results.schema import CELL, KIND, SCORE

if TYPE_CHECKING:
    from modtf.analysis.figures import Picture


class Study:
    """Results of cells that may be compared: one protocol for every kind of task, one checkpoint.

    A variant that was run with options has a name of its own here, "modular (modules=16)"; the column
    `router` keeps the plain one.

    Args:
        results: as `load_results` gives it.
        history: as `load_history` gives it; read from `cells` when it is first asked for, if not given.
        checkpoint: "tail", "last", "best" or "pooled", which is the mean of last and best.
        protocols: keep the cells of these protocols only.
        cells: where the results come from.
        level: of all intervals.

    Raises:
        ValueError: if the results hold no such checkpoint or protocol, or a kind was trained in several ways.

    Example:
        >>> study = modtf.Study.read("runs")  # doctest: +SKIP
        >>> study.claims()  # doctest: +SKIP
    """

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
        rows = select_checkpoint(select_protocols(with_categories(results), protocols), checkpoint)
        self.results = with_variants(rows)
        self.checkpoint = checkpoint
        self.level = level
        self.cells = [cell for cell in cells if not protocols or cell.protocol in protocols]
        self._progress = progress
        if history is not None:
            self.history = with_variants(with_categories(history))

    @classmethod
    def read(
        cls,
        folders: str | Path | Sequence[str | Path],
        checkpoint: str = "tail",
        protocols: Sequence[str] = (),
        level: float = LEVEL,
        progress: Progress = iter,
    ) -> "Study":
        """The study of all finished cells in one folder or several.

        Args:
            folders: where training wrote; cells may lie at any depth.
            checkpoint, protocols, level: see `Study`.
            progress: wraps the list of cells, for example `tqdm`.

        Raises:
            FileNotFoundError: if a folder does not exist or holds no cell.
            ValueError: if no cell is finished, a file is not what training writes, or the cells cannot be
                compared.
        """
        cells = find_cells(folders)
        finished = [cell for cell in cells if cell.is_finished]
        if not finished:
            names = [folders] if isinstance(folders, str | Path) else folders
            raise ValueError(
                f"None of the {len(cells)} cells in {', '.join(map(str, names))} is finished. "
                "Let training end, then try again."
            )
        return cls(
            load_results(finished, progress),
            checkpoint=checkpoint,
            protocols=protocols,
            cells=cells,
            level=level,
            progress=progress,
        )

    @cached_property
    def history(self) -> pd.DataFrame:
        """The evaluations during training, as `load_history` gives them."""
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
    def diverged(self) -> pd.DataFrame:
        """The models whose performance is no finite number."""
        return contents.diverged(self.results)

    @property
    def variants(self) -> list[str]:
        """From least to most informed, those of users behind."""
        found = set(self.results["variant"])
        return [name for name in self.results["variant"].cat.categories if name in found]

    @property
    def kinds(self) -> list[tuple[str, ...]]:
        """(arch, setting, task_options), in the order of the report."""
        found = self.results[list(KIND)].drop_duplicates()
        return in_report_order(found.itertuples(index=False, name=None))

    def contents(self) -> pd.DataFrame:
        """One row per kind: its sizes, variants, numbers of models, how many diverged."""
        return contents.contents(self.results)

    def of_kind(self, arch: str, setting: str, task_options: str = "") -> "Study":
        """The part of one kind of task."""
        wanted = dict(zip(KIND, (arch, setting, task_options), strict=True))
        cells = [cell for cell in self.cells if all(cell.cell[name] == v for name, v in wanted.items())]
        return self._part(lambda frame: _where(frame, wanted), cells)

    def of_variants(self, variants: Sequence[str]) -> "Study":
        """The part of some variants, by the names that the study gives them."""
        cells = [cell for cell in self.cells if _name(cell) in variants]
        return self._part(lambda frame: frame[frame["variant"].isin(list(variants))], cells)

    def _part(self, keep: Callable[[pd.DataFrame], pd.DataFrame], cells: Sequence[CellFolder]) -> "Study":
        part = copy(self)
        for cached in ("performance", "missing", "diverged"):
            part.__dict__.pop(cached, None)
        part.cells, part.results = list(cells), keep(self.results)
        if "history" in self.__dict__:
            part.history = keep(self.history)
        return part

    def activations(self, **where: Any) -> Iterator[Activations]:
        """The activation matrices of cells, one after the other.

        Args:
            **where: values of the cells to read, `variant` as the study names it, options included.

        Example:
            >>> next(study.activations(variant="modular", num_rules=8)).at("tail")  # doctest: +SKIP
        """
        variant = where.pop("variant", None)
        for cell in self.cells:
            name = _name(cell)
            if variant in (None, name):
                for found in load_activations([cell], **where):
                    yield replace(found, cell={**found.cell, "router": cell.cell["variant"], "variant": name})

    def summary(
        self, by: Sequence[str] = (*CELL, *SCORE), over: Sequence[str] = (), **where: Any
    ) -> pd.DataFrame:
        """`modtf.summarise` of the results that match `where`, with the intervals of the study.

        Example:
            >>> study.summary(["variant", "num_rules"], ["width"], measure="alignment")  # doctest: +SKIP
        """
        return summarise(_where(self.results, where), by, over, level=self.level)

    def table(self) -> str:
        """The comparison of the variants, cell by cell, as text."""
        from modtf.analysis.table import tables_of

        return tables_of(self)

    def claims(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """The paper's claims held against the study, one row per kind and piece of evidence."""
        from modtf.analysis.claims import judge_all

        return judge_all(self, names)

    def figure(self, name: str, **choice: Any) -> "list[Picture]":
        """The pictures of one registered figure.

        Args:
            name: of `modtf.analysis.figures.FIGURES`.
            **choice: fields of `modtf.analysis.figures.Choice`, such as `data_seed=1`.

        Raises:
            NothingToDraw: if the study holds nothing for it; the message says what is missing.
        """
        from modtf.analysis.figures import FIGURES, Choice

        return list(FIGURES[name](self, Choice(**choice)))

    def figures(self, **choice: Any) -> "dict[str, list[Picture]]":
        """All registered figures that the study holds something for."""
        from modtf.analysis.figures import FIGURES, NothingToDraw

        drawn = {}
        for name in FIGURES:
            try:
                drawn[name] = self.figure(name, **choice)
            except NothingToDraw:
                continue
        return drawn

    def report(self, out: str | Path, figures: Sequence[str] = (), **choice: Any) -> Path:
        """Writes report.html, figures/ and tables/ to `out`; the path of the page."""
        from modtf.analysis.report import write_report

        return write_report(self, Path(out), figures, **choice)

    def __repr__(self) -> str:
        missing = len(self.missing) if self.cells else None
        return contents.describe(self.results, self.checkpoint, missing)


def _name(cell: CellFolder) -> str:
    return variant_label(cell.cell["variant"], cell.cell["model_options"])


def _where(frame: pd.DataFrame, wanted: dict[str, Any]) -> pd.DataFrame:
    unknown = set(wanted) - set(frame)
    if unknown:
        raise ValueError(f"The results have no column {unknown.pop()!r}; they have {', '.join(frame)}.")
    keep = pd.Series(True, frame.index)
    for name, value in wanted.items():
        keep &= frame[name] == value
    return frame[keep]
