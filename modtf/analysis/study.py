"""A study: results that may be compared with each other, with all their tables and figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from modtf.analysis.claims.judge import judge_all
from modtf.analysis.intervals import LEVEL, summarise
from modtf.analysis.table import tables_of
from modtf.analysis.trained import TrainedModels, contents, how_corrected, how_trained
from modtf.base.checks import check_choice
from modtf.base.words import plural
from modtf.results import find_cells, load_results
from modtf.results.load import Progress
from modtf.results.schema import CELL, MEMBER, SCORE

if TYPE_CHECKING:
    from modtf.pages.pictures import Picture


class Study(TrainedModels):
    """Results of cells that may be compared: one protocol for every task type, one checkpoint.

    Variants may have their own tuned learning rates; the rest of the protocol is the same. A variant that
    was run with options has its own name, "modular (modules=16)". The column `router` keeps the plain name.

    Args:
        results: the table of `load_results`.
        history: the table of `load_history`; by default it is read from `cells` on first use.
        checkpoint: "tail", "last", "best" or "pooled" (the mean of last and best). By default the families
            choose: "tail" (final checkpoints, averaged) for those of the paper.
        protocols: keep only the cells of these protocols.
        cells: the cells that the results come from.
        level: of all intervals.

    Raises:
        ValueError: if the results lack the checkpoint or protocol, or one task type has several protocols.

    Example:
        >>> study = modtf.Study.read("runs")  # doctest: +SKIP
        >>> study.claims()  # doctest: +SKIP
    """

    @classmethod
    def read(
        cls,
        folders: str | Path | Sequence[str | Path],
        checkpoint: str | None = None,
        protocols: Sequence[str] = (),
        level: float = LEVEL,
        progress: Progress = iter,
    ) -> "Study":
        """Read all finished cells in one or several folders; name damaged cells and leave them out.

        Args:
            folders: output folders of training, or archives of them; cells may lie at any depth.
            checkpoint, protocols, level: see `Study`.
            progress: wraps the list of cells, for example `tqdm`.

        Raises:
            FileNotFoundError: if a folder does not exist or holds no cells.
            ValueError: if no cell is finished, or the cells cannot be compared.
        """
        cells = find_cells(folders)
        finished = [cell for cell in cells if cell.is_finished]
        if not finished:
            names = [folders] if isinstance(folders, str | Path) else folders
            damaged = [f"{cell.path} is damaged: {cell.damage}" for cell in cells if cell.damage][:1]
            raise ValueError(
                f"None of the {plural(len(cells), 'cell')} in {', '.join(map(str, names))} is finished. "
                f"{damaged[0] if damaged else 'Wait until training ends, then try again.'}"
            )
        shared = {"checkpoint": checkpoint, "protocols": protocols, "level": level, "progress": progress}
        return cls(load_results(finished, progress), cells=cells, **shared)  # type: ignore[arg-type]

    def contents(self) -> pd.DataFrame:
        """Return one row per task type: its sizes, variants, numbers of models, how many diverged."""
        return contents(self.results)

    def summary(
        self, by: Sequence[str] = (*CELL, *SCORE), over: Sequence[str] = (), **chosen: Any
    ) -> pd.DataFrame:
        """Return `modtf.summarise` of the results that match `chosen`, with the study's level of intervals.

        Example:
            >>> study.summary(["variant", "num_rules"], ["width"], measure="alignment")  # doctest: +SKIP
        """
        frame = self.results
        for name, value in chosen.items():
            if name not in frame:
                raise ValueError(f"The results have no column {name!r}; they have {', '.join(frame)}.")
            if not pd.api.types.is_scalar(value):
                raise ValueError(f"{name}={value!r} is not valid; expected one of the column's values.")
            check_choice(name, value, self.results[name].unique().tolist())
            frame = frame[frame[name] == value]
        return summarise(frame, by, over, level=self.level)

    def table(self) -> str:
        """Return the comparison of the variants, cell by cell, learning rates and corrections, as text."""
        return "\n".join(
            [
                tables_of(self.results, self.level),
                *how_trained(self),
                *how_corrected(self.cells),
            ]
        )

    def claims(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Judge the registered claims, one row per task type and piece of evidence, see `judge_all`."""
        return judge_all(self, names)

    def figure(self, name: str, **choice: Any) -> "list[Picture]":
        """Draw the pictures of one registered figure.

        Args:
            name: a key of `modtf.analysis.figures.FIGURES`.
            **choice: fields of `modtf.analysis.figures.Choice`, such as `data_seed=1`.

        Raises:
            NothingToDraw: if the study lacks the data for it; the message says what is missing.
        """
        from modtf.analysis.figures import FIGURES, Choice  # only now: it imports the plotting libraries

        return list(FIGURES[name](self, Choice(**choice)))

    def figures(self, **choice: Any) -> "dict[str, list[Picture]]":
        """Draw all registered figures for which the study has data."""
        from modtf.analysis.figures import FIGURES, NothingToDraw

        drawn = {}
        for name in FIGURES:
            try:
                drawn[name] = self.figure(name, **choice)
            except NothingToDraw:
                continue
        return drawn

    def report(self, out: str | Path, figures: Sequence[str] = (), **choice: Any) -> Path:
        """Write report.html, figures/ and tables/ to `out`, see `write_report`; return the page's path."""
        from modtf.analysis.report.write import write_report

        return write_report(self, Path(out), figures, **choice)

    def __repr__(self) -> str:
        table = self.contents()
        models, cells = plural(table["models"].sum(), "model"), plural(table["cells"].sum(), "cell")
        lines = [f"Study of {models} in {cells}, checkpoint {self.checkpoint}"]
        models_of_cell = self.results.drop_duplicates(list(MEMBER)).groupby(["kind", *CELL], observed=True)
        fewest = models_of_cell.size().groupby("kind", observed=True).min()
        for row in table.itertuples():
            grid = f"R = {row.R}; width {row.widths}; {row.variants}"
            members = f"{plural(row.tasks, 'task')} x {plural(row.seeds, 'seed')}"
            members = "up to " * int(fewest[row.kind] < row.tasks * row.seeds) + members
            lost = f"; {row.diverged} diverged" if row.diverged else ""
            lines.append(f"  {row.kind}: {grid}; {members}{lost}")
        if self.cells:
            number = len(self.missing)
            lines.append(f"  requested and missing: {plural(number, 'cell') if number else 'nothing'}")
        return "\n".join(lines)
