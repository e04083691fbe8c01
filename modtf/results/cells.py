"""Finds the cells under a folder. A cell is identified by its config, never by the folder's name."""

import json
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from modtf.base.files import read_text, walk
from modtf.results.archive import SUFFIX, unpacked
from modtf.results.schema import (
    ACTIVATION,
    CELL,
    CONFIG,
    CORRECTIONS,
    HISTORY,
    MANIFEST,
    PRIVATE,
    RESULTS,
    damage_of,
    read_json,
)
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES
from modtf.tasks.task import science_hash
from modtf.training.checkpoint_file import DamagedError, checkpoints

Folder = str | os.PathLike[str]


@dataclass(frozen=True)
class CellFolder:
    """A cell on disk. `damage` describes its damage, if any; damaged cells are left out."""

    path: Path
    config: dict[str, Any]  # empty if the config itself is damaged
    damage: str = ""

    @cached_property
    def definition(self) -> Cell:
        """The cell that was run."""
        return Cell.from_dict(self.config)

    @cached_property
    def cell(self) -> dict[str, Any]:
        """The values of `CELL`; "" and 0 if the config is damaged."""
        unknown = {name: 0 if name in ("num_rules", "width") else "" for name in CELL}
        return self.definition.columns if self.config else unknown

    @property
    def members(self) -> tuple[tuple[int, int], ...]:
        """(data_seed, seed) of every member."""
        return self.definition.members if self.config else ()

    @cached_property
    def protocol(self) -> str:
        """The hash of training and evaluation, then the learning rate, such as "1f0c2a7b@0.001". Cells with
        the same protocol may be compared; after tuning, variants may differ in the part after "@"."""
        if not self.config:
            return ""
        config = self.definition.common_protocol.to_dict()
        del config["training"]["learning_rate"]
        return f"{science_hash(config, 4)}@{self.definition.protocol.training.learning_rate}"

    @property
    def is_finished(self) -> bool:
        """Whether training has reached its end and no file is damaged."""
        return not self.damage and is_finished(self.path)

    @property
    def has_history(self) -> bool:
        return (self.path / HISTORY).is_file()

    @property
    def has_activation(self) -> bool:
        return (self.path / ACTIVATION).is_file()

    @property
    def corrections(self) -> list[dict[str, Any]]:
        """Corrections after training: "measure", "change", "commit", and "old", file -> its old lines."""
        return list(read_json(self.path / CORRECTIONS).get("corrections", []))


def is_finished(folder: Path) -> bool:
    """Return whether a cell has its manifest, or results but no checkpoint. The latter has lost its manifest
    and is damaged."""
    return (folder / MANIFEST).is_file() or ((folder / RESULTS).is_file() and not checkpoints(folder))


Source = Folder | Sequence[Folder] | Sequence[CellFolder]


def find_cells(directory: Source) -> list[CellFolder]:
    """Return every cell under one folder or several, at any depth: by path, folders as given.

    An archive from `modtf report --archive` is read as a folder. Finished cells are checked against their
    manifest; damage gives a warning. Cells that were found before pass through, so that a caller can select
    some of them.

    Raises:
        FileNotFoundError: if a folder does not exist or holds no cell.
        ValueError: if a config's family is not registered, or two folders hold the same cell, members and
            protocol.
    """
    cells: dict[Path, CellFolder] = {}
    single = isinstance(directory, str | bytes | os.PathLike) or not isinstance(directory, Iterable)
    items: list[Any] = [directory] if single else list(directory)  # type: ignore[arg-type]
    for item in items:
        if not isinstance(item, str | os.PathLike | CellFolder):
            raise ValueError(
                f"{item!r} is not a folder. Give a folder that training wrote, or a list of them."
            )
        if isinstance(item, CellFolder):
            cells[item.path.resolve() / CONFIG] = item
            continue
        folder = Path(item)
        if folder.suffix == SUFFIX and os.path.isfile(folder):
            folder = unpacked(folder)
        if not os.path.isdir(folder):  # pathlib's method raises on invalid names
            what = "archive" if folder.suffix == SUFFIX else "folder"
            raise FileNotFoundError(
                f"The {what} {str(folder)!r} does not exist. Give one that training wrote."
            )
        # sorted here, because archives are unpacked to folders of random names
        inside = dict(sorted(_cells_in(folder), key=lambda item: item[1].path))
        if not inside:
            raise FileNotFoundError(
                f"{str(folder)!r} holds no results: neither it nor its sub-folders contain a cell's "
                f"{CONFIG}. Give the folder that was --out in training."
            )
        cells |= inside
    _refuse_copies(cells.values())
    return list(cells.values())


def _cells_in(folder: Path) -> Iterator[tuple[Path, CellFolder]]:
    """Yield the real path of each cell's config, and the cell. Links to folders are followed once."""
    visited = set()
    for parent, folders, files in walk(folder, followlinks=True):
        real = parent.resolve()
        if real in visited:
            folders.clear()
            continue
        visited.add(real)
        if PRIVATE in folders:
            folders.remove(PRIVATE)
        is_cell = CONFIG in files or {RESULTS, MANIFEST} <= set(files)
        if is_cell and (cell := _read(parent / CONFIG)) is not None:
            yield real / CONFIG, cell
            folders.clear()  # a cell holds no cells, but may hold many TensorBoard files


def read_config(folder: Path) -> dict[str, Any]:
    """Return the contents of `config.json`; empty if it belongs to another program.

    Raise `DamagedError` if it cannot be read, or describes no cell of this version; `ValueError` if the
    cell's family is not registered.
    """
    path = folder / CONFIG
    try:
        config = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedError(
            f"{path} cannot be read ({error}). Remove its folder and run the cell again."
        ) from error
    if not isinstance(config, dict) or "cell" not in config:
        return {}
    try:
        Cell.from_dict(config).columns  # noqa: B018
    except ValueError as error:
        task = config["cell"].get("task") if isinstance(config["cell"], dict) else None
        arch = task.get("arch") if isinstance(task, dict) else None
        if isinstance(arch, str) and arch not in FAMILIES:
            raise ValueError(
                f"{path} is of the family {arch!r}, which is not registered (registered: "
                f"{', '.join(FAMILIES)}). Load the plug-in that registers it by --plugin=FILE_OR_MODULE or "
                "modtf.load_plugin."
            ) from error
        raise DamagedError(
            f"{path} does not describe a cell of this version ({error}). Remove its folder and run the cell "
            "again."
        ) from error
    return config


def _read(path: Path) -> CellFolder | None:
    """Return the cell whose config lies at `path`; None if it belongs to another program."""
    folder, config = path.parent, dict[str, Any]()
    damage = damage_of(folder, weights=False) if is_finished(folder) else ""
    if not damage.startswith(CONFIG):
        try:
            config = read_config(folder)
        except DamagedError as error:
            damage = damage or str(error)
        else:
            damage = damage if config or (folder / RESULTS).exists() else ""
    if (not config and not damage) or not folder.exists():  # another process removed it
        return None
    damage = damage.removeprefix(f"{folder}{os.sep}")
    if damage:
        warnings.warn(f"{folder} is damaged and left out: {damage}", stacklevel=3)
    return CellFolder(folder, config, damage)


def _refuse_copies(cells: Iterable[CellFolder]) -> None:
    """Raise `ValueError` if two finished cells hold the same model. Warn if two have the same options in
    another order."""
    seen: dict[tuple[Any, ...], CellFolder] = {}
    orders: dict[tuple[str, ...], str] = {}
    for cell in cells:
        if not cell.is_finished:
            continue
        variant, options = cell.cell["variant"], cell.cell["model_options"]
        in_order = (variant, *sorted(options.split(",")))
        for member in cell.members:
            key = (*{**cell.cell, "model_options": in_order}.values(), cell.protocol, member)
            other = seen.setdefault(key, cell)
            if other is not cell:
                raise ValueError(
                    f"{other.path} and {cell.path} hold the same model (task {member[0]}, seed "
                    f"{member[1]}), which would count twice. Give only one of them."
                )
        if (other_order := orders.setdefault(in_order, options)) != options:
            warnings.warn(
                f"{variant} has the same options in two orders, {other_order} and {options}, and counts as "
                "two variants. Give its options in one order.",
                stacklevel=3,
            )
