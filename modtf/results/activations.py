"""Reads the activation matrices of cells."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.checks import check_choice
from modtf.observed import Place, at_place
from modtf.protocol import tail_length
from modtf.results.cells import CellFolder, Source, find_cells
from modtf.results.schema import ACTIVATION, CHECKPOINTS, MATRICES, NUMBERS, read_activations


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
    place: str = ""  # "" of a model with a single routed layer
    rule_names: tuple[str, ...] | None = None  # what a reader calls the rows

    def index(self, data_seed: int, seed: int) -> int | None:
        """The place of a member, None if the cell does not have it."""
        found = np.flatnonzero((self.data_seeds == data_seed) & (self.seeds == seed))
        return int(found[0]) if found.size else None

    def evaluations(self, checkpoint: str) -> NDArray[np.float64]:
        """The matrices `[E, P, R, M]` over which a checkpoint's measures are averaged.

        Raises:
            ValueError: if there is no such checkpoint.
        """
        check_choice("checkpoint", checkpoint, (*CHECKPOINTS, "pooled"))
        if checkpoint == "tail":
            trained = self.history[self.steps > 0]
            return trained[-tail_length(len(trained)) :]
        if checkpoint == "pooled":
            return np.stack([self.last, self.best])
        return (self.last if checkpoint == "last" else self.best)[None]

    def at(self, checkpoint: str) -> NDArray[np.float64]:
        """The mean of the matrices of a checkpoint, `[P, R, M]`; of "tail" over the last evaluations.

        Raises:
            ValueError: if there is no such checkpoint.
        """
        return np.asarray(self.evaluations(checkpoint).mean(axis=0))


def load_activations(directory: Source, place: str = "", **where: Any) -> list[Activations]:
    """The activation matrices of the finished cells under `directory` that match `where`.

    Args:
        directory: one folder or several, or cells that were found before.
        place: of a model with several routed layers; cells that have no such place are left out.
        **where: values of the cells to read, for example `variant="modular", num_rules=8`; all by default.
            Matrices of a whole grid take much memory: name what you need.

    Raises:
        FileNotFoundError: if a folder does not exist or holds no cell.
        ValueError: if a file cannot be read, or `where` names what is no column of a cell.
    """
    wanted = []
    for cell in find_cells(directory):
        unknown = set(where) - set(cell.cell)
        if unknown:
            raise ValueError(f"A cell has no {unknown.pop()!r}; it has {', '.join(cell.cell)}.")
        if cell.is_finished and cell.has_activation and all(cell.cell[k] == v for k, v in where.items()):
            known = cell.definition.task.places.get(place)
            wanted += [] if known is None else _read(cell, known)
    return wanted


def _read(cell: CellFolder, place: Place) -> list[Activations]:
    """Those at a place, if the model has it."""
    path, found = cell.path / ACTIVATION, read_activations(cell.path)
    names = {name: at_place(name, place.name) for name in MATRICES}
    if place.name and names["last"] not in found:
        return []
    arrays: dict[str, Any] = {name: found[name].astype(np.int64) for name in NUMBERS}
    arrays |= {name: found[stored].astype(np.float64) for name, stored in names.items() if stored in found}
    members, steps = (len(cell.members),), arrays["steps"].shape[:1]
    matrices = (*members, place.num_rules, *arrays.get("last", np.ones(1)).shape[2:3])
    expected = {"last": matrices, "best": matrices, "history": (*steps, *matrices), "steps": steps}
    for name in (*MATRICES, *NUMBERS):
        shape = arrays[name].shape if name in arrays else None
        if shape != expected.get(name, members):
            raise ValueError(
                f"{path} cannot be read ({name} has shape {shape}; expected "
                f"{expected.get(name, members)}). Remove its folder and run the cell again."
            )
    return [Activations(cell=cell.cell, **arrays, place=place.name, rule_names=place.rule_names)]
