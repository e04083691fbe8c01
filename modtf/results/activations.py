"""Reads the activation matrices of cells."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.base.checks import check_choice
from modtf.evaluation.scores import measure_members
from modtf.metrics import GROUPS
from modtf.results.cells import Source, find_cells
from modtf.results.schema import CHECKPOINTS
from modtf.results.tables import read_matrices
from modtf.tasks.protocol import tail_of


@dataclass(frozen=True)
class Activations:
    """The activation matrices of one cell at one place, rows p(module | rule), one per member."""

    cell: dict[str, Any]  # the values of CELL
    last: NDArray[np.float64]  # [P, R, M]
    best: NDArray[np.float64]  # [P, R, M]
    history: NDArray[np.float64]  # [E, P, R, M]
    steps: NDArray[np.int64]  # [E]
    data_seeds: NDArray[np.int64]  # [P]
    seeds: NDArray[np.int64]  # [P]
    place: str = ""  # "" for a model with a single routed layer
    rule_names: tuple[str, ...] | None = None  # names of the rows for readers
    tail: NDArray[np.float64] | None = None  # [E, P, R, M]; None if the history ends with them
    rule_probs: tuple[float, ...] | None = None  # the rules' frequencies [R]; None if all are equal

    def index(self, data_seed: int, seed: int) -> int | None:
        """Return the position of a member; None if the cell does not have it."""
        places = np.flatnonzero((self.data_seeds == data_seed) & (self.seeds == seed))
        return int(places[0]) if places.size else None

    def evaluations(self, checkpoint: str) -> NDArray[np.float64]:
        """Return the matrices `[E, P, R, M]` whose mean is a checkpoint; raise `ValueError` if unknown."""
        check_choice("checkpoint", checkpoint, (*CHECKPOINTS, "pooled"))
        if checkpoint == "tail" and self.tail is not None:
            return self.tail
        if checkpoint == "tail":
            return tail_of(self.history)
        if checkpoint == "pooled":
            return np.stack([self.last, self.best])
        return (self.last if checkpoint == "last" else self.best)[None]

    def measured(
        self, checkpoint: str, groups: Iterable[str] | None = GROUPS
    ) -> dict[str, NDArray[np.float64]]:
        """Return measure -> values `[P]` of some groups: the mean over a checkpoint's evaluations."""
        matrices = self.evaluations(checkpoint)
        every = matrices.reshape(-1, *matrices.shape[2:])
        measured = measure_members(every, groups=groups, rule_probs=self.rule_probs)
        return {name: values.reshape(matrices.shape[:2]).mean(axis=0) for name, values in measured.items()}

    def at(self, checkpoint: str) -> NDArray[np.float64]:
        """Return the mean matrices `[P, R, M]` of a checkpoint; raise `ValueError` if it is unknown."""
        return np.asarray(self.evaluations(checkpoint).mean(axis=0))


def load_activations(directory: Source, place: str = "", **where: Any) -> list[Activations]:
    """Return the activation matrices of the finished cells under `directory` that match `where`.

    Args:
        directory: one folder or several, or cells that were found before.
        place: the routed layer; "" for models with a single one. Cells without this place are left out.
        **where: values of the cells to read, for example `variant="modular", num_rules=8`; all by default.
            The matrices of a whole grid take much memory: select what you need.

    Raises:
        FileNotFoundError: if a folder does not exist or holds no cell.
        ValueError: if a file cannot be read, or `where` names an unknown column.
    """
    if not isinstance(place, str):
        raise ValueError(f"place={place!r} is not valid; expected the name of a routed layer.")
    wanted = []
    for cell in find_cells(directory):
        unknown = set(where) - set(cell.cell)
        if unknown:
            raise ValueError(
                f"{unknown.pop()!r} is not a property of a cell; expected one of {', '.join(cell.cell)}."
            )
        if cell.is_finished and cell.has_activation and all(cell.cell[k] == v for k, v in where.items()):
            task = cell.definition.task
            known = task.places.get(place)
            arrays = {} if known is None else read_matrices(cell.path, cell.definition, known)
            if known and arrays:
                probs = None if place else task.family.rule_probs(task)
                wanted.append(
                    Activations(
                        cell.cell, **arrays, place=place, rule_names=known.rule_names, rule_probs=probs
                    )
                )
    return wanted
