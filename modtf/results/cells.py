"""Finds the cells under a folder. What a cell is stands in its config, never in the folder's name."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from modtf.results.schema import ACTIVATION, CELL, CONFIG, HISTORY, RESULTS
from modtf.task import Task, science_hash

Folder = str | os.PathLike[str]


@dataclass(frozen=True)
class CellFolder:
    """One cell on disk, finished or not."""

    path: Path
    config: dict[str, Any]

    @property
    def cell(self) -> dict[str, Any]:
        """The values of `CELL`; `search` is "" where there is none."""
        return {name: self.config["cell"].get(name) or "" for name in CELL}

    @property
    def members(self) -> list[tuple[int, int]]:
        """(data_seed, seed) of every member."""
        return [(int(d), int(s)) for d, s in self.config["cell"]["members"]]

    @property
    def protocol(self) -> str:
        """Names how the cell was trained and evaluated, and what else its task is: the same for cells that
        may be compared."""
        defaults = {field.name: field.default for field in fields(Task)}
        task = {k: v for k, v in self.config["cell"].items() if k not in (*CELL, "members")}
        changed = {k: v for k, v in task.items() if v != defaults.get(k)}
        how = {key: self.config.get(key) for key in ("training", "evaluation")}
        return science_hash({**how, **({"task": changed} if changed else {})}, 4)

    @property
    def is_finished(self) -> bool:
        return (self.path / RESULTS).is_file()

    @property
    def has_history(self) -> bool:
        return (self.path / HISTORY).is_file()

    @property
    def has_activation(self) -> bool:
        return (self.path / ACTIVATION).is_file()


Source = Folder | Sequence[Folder] | Sequence[CellFolder]


def find_cells(directory: Source) -> list[CellFolder]:
    """Every cell under one folder or several, at any depth, in the order of their paths.

    Cells that were found before pass through, so that a caller may choose among them.

    Raises:
        FileNotFoundError: if a folder does not exist or holds no cell.
        ValueError: if a config cannot be read, or two folders hold the same cell, members and protocol.
    """
    cells: dict[Path, CellFolder] = {}
    for item in [directory] if isinstance(directory, str | os.PathLike) else directory:
        if isinstance(item, CellFolder):
            cells[item.path.resolve() / CONFIG] = item
            continue
        folder = Path(item)
        if not folder.is_dir():
            raise FileNotFoundError(f"There is no folder {str(folder)!r}. Give one that training wrote.")
        found = {path.resolve(): _read(path) for path in _config_files(folder)}
        if not any(found.values()):
            raise FileNotFoundError(
                f"{str(folder)!r} holds no results: no {CONFIG} of a cell was found in it or below. "
                "Give the folder that was --out in training."
            )
        cells |= {path: cell for path, cell in found.items() if cell is not None}
    _refuse_copies(cells.values())
    return [cells[path] for path in sorted(cells)]


def _config_files(folder: Path) -> Iterable[Path]:
    for parent, folders, files in os.walk(folder):
        if CONFIG in files:
            yield Path(parent, CONFIG)
            folders.clear()  # a cell holds no cells, but may hold many TensorBoard files
        folders.sort()


def _read(path: Path) -> CellFolder | None:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path} cannot be read ({error}). Remove the folder and run its cell again."
        ) from error
    if not isinstance(config, dict) or "cell" not in config:
        return None  # another program's config.json
    absent = [name for name in (*CELL, "members") if name not in config["cell"] and name != "search"]
    if absent:
        raise ValueError(
            f'{path}: "cell" lacks {", ".join(absent)}. Remove the folder and run its cell again.'
        )
    return CellFolder(path.parent, config)


def _refuse_copies(cells: Iterable[CellFolder]) -> None:
    seen: dict[tuple[Any, ...], CellFolder] = {}
    for cell in cells:
        if not cell.is_finished:
            continue
        for member in cell.members:
            key = (*cell.cell.values(), cell.protocol, member)
            other = seen.setdefault(key, cell)
            if other is not cell:
                raise ValueError(
                    f"{other.path} and {cell.path} hold the same model (task {member[0]}, seed {member[1]}): "
                    "it would count twice. Give only one of them."
                )
