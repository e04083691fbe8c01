"""The state of a cell on disk: it is finished once its manifest is written, which happens last."""

import contextlib
import inspect
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modtf.base.files import remove_unfinished, write_text
from modtf.base.registry import Registry
from modtf.base.version import __version__
from modtf.engines.lock import remove_left
from modtf.models.architectures import ARCHITECTURES
from modtf.models.own import MODELS, hash_of_source
from modtf.models.routers import ROUTERS
from modtf.results.cells import is_finished, read_config
from modtf.results.manifest import MANIFEST, damage_of, read_json, write_manifest
from modtf.results.schema import CONFIG, ERROR, PRIVATE
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES
from modtf.tasks.task import science_hash
from modtf.training import checkpoint_file

SOURCE = "source"  # in the config: hash of a registered model's file; "router_source", ... of other parts


@dataclass(frozen=True)
class State:
    """The state of a cell: "finished", "failed", "damaged" or "open" (unfinished or not begun)."""

    name: str
    reason: str = ""  # of a failure or damage, in one line
    version: str = __version__  # the version of modtf that finished it

    def remark(self, name: str) -> str:
        """Return what a reader should know about the cell `name` before it runs; "" if nothing."""
        damaged = f"{name} is damaged: {self.reason}. It is moved aside and run again."
        return damaged if self.name == "damaged" else ""

    @property
    def is_of_another_version(self) -> bool:
        """Whether the cell's version has another major.minor number, so that its results may differ."""
        return self.version.split(".")[:2] != __version__.split(".")[:2]


def state_of(cell: Cell, out: str | Path) -> State:
    """Return the state of a cell; remove leftovers of a kill right after a finished cell's manifest.

    Raise `ValueError` if the folder belongs to another cell, or the file of a registered model, router,
    architecture or family has changed, or that of its data or trainer.
    """
    folder = Path(out, cell.folder)
    finished = is_finished(folder)
    damage, config = damage_of(folder) if finished else "", dict[str, Any]()
    if not damage and (folder / CONFIG).exists():
        try:
            config = read_config(folder)
            check_identity(cell, folder, config)
        except checkpoint_file.DamagedError as error:
            damage = str(error)
    if damage:
        return State("damaged", damage)
    if finished:
        remove_unfinished(folder)
        checkpoint_file.remove_checkpoints(folder)
        remove_left(out, cell.folder)
        version = read_json(folder / MANIFEST).get("version") or config.get("version")
        return State("finished", version=str(version or __version__))
    return State("failed", reason) if (reason := error_of(folder)) else State("open")


def check_identity(cell: Cell, folder: Path, config: dict[str, Any]) -> None:
    """Raise `ValueError` unless the config in a folder is the cell's, regardless of the folder's name."""
    if not config:
        raise checkpoint_file.DamagedError(f"{folder / CONFIG} does not describe a cell.")
    recorded = Cell.from_dict(config)
    if science_hash(recorded.to_dict()) != science_hash(cell.to_dict()):
        raise ValueError(
            f"{folder} holds the cell {recorded.folder}, so it was renamed or copied. Move it away, or "
            "choose another --out."
        )
    now = recorded_source(cell)
    for kind, (key, name, _) in _from_outside(cell).items():
        if key in config and config[key] != now[key]:
            raise ValueError(
                f"{folder} holds results of the {kind} {name!r}, whose file has changed since. Register the "
                f"new {kind.split()[-1]} under another name, choose another --out, or remove the folder."
            )


def recorded_source(cell: Cell) -> dict[str, Any]:
    """Return the sources to record for the cell's registered parts, which their names do not identify."""
    outside = _from_outside(cell).values()
    return {key: hash_of_source(inspect.getmodule(thing) or thing) for key, _, thing in outside}


def _from_outside(cell: Cell) -> dict[str, tuple[str, str, Any]]:
    """Return the parts of a cell that plug-ins registered: kind -> key in the config, name, object.

    The data and the trainer of such a family may lie in other files. Their object is the name of its module.
    """
    parts: dict[str, tuple[str, str, Registry[Any]]] = {
        "model": (SOURCE, cell.runs, MODELS),
        "router": ("router_source", cell.runs, ROUTERS),
        "architecture": ("architecture_source", cell.network, ARCHITECTURES),
        "family": ("family_source", cell.task.arch, FAMILIES),
    }
    outside: dict[str, tuple[str, str, Any]] = {
        kind: (key, name, registry[name])
        for kind, (key, name, registry) in parts.items()
        if name in registry.outside
    }
    if "family" in outside:
        family, variant = cell.task.family, cell.task.family.variant(cell.variant)
        other_files = {
            "data of the family": ("data_source", family.name, _module_of(family.data)),
            "trainer of the variant": ("trainer_source", variant.name, _module_of(variant.trainer)),
        }
        own_file = type(family).__module__
        outside |= {
            kind: part
            for kind, part in other_files.items()
            if part[2] != own_file and part[2].partition(".")[0] != "modtf"
        }
    return outside


def _module_of(reference: Any) -> str:
    """Return the name of the module of a function, a class or a lazy reference."""
    if isinstance(reference, str):
        return reference.partition(":")[0]
    return str(getattr(reference, "func", reference).__module__)  # `func` of a functools.partial


def write_config(cell: Cell, folder: Path, **more: Any) -> None:
    """Write a cell's config."""
    record = {**cell.to_dict(), "version": __version__, "manifest": True, **recorded_source(cell), **more}
    write_text(folder / CONFIG, json.dumps(record, indent=1))


def check_order(cell: Cell, out: str | Path) -> None:
    """Raise `ValueError` if a cell has no folder yet, but another folder holds it with its options in another
    order. The order is part of the folder's name, and not of the hash."""
    several = max(map(len, (cell.router, cell.model, cell.trainer))) > 1
    if not several or Path(out, cell.folder).exists():
        return
    for folder in sorted(Path(out).glob(f"*-{cell.hash}")):
        raise ValueError(
            f"{folder} holds the cell {cell.label} with its options in another order. Give them in the order "
            "of the folder's name, or choose another --out."
        )


def write_asked(cells: Iterable[Cell], out: str | Path) -> None:
    """Write the config of every cell without a folder, so that reports know what was requested. Raise
    `ValueError` as `check_order`, before anything is written."""
    cells = list(cells)
    for cell in cells:
        check_order(cell, out)
    for cell in cells:
        with contextlib.suppress(OSError):  # it has a folder; or the disk is full, which the cell reports
            (folder := Path(out, cell.folder)).mkdir(parents=True)  # only one of two commands succeeds
            write_config(cell, folder)


def is_open(out: str | Path, name: str) -> bool:
    """Return whether the cell in folder `name` of a study has neither ended nor failed. Its files are not
    checked."""
    folder = Path(out, name)
    return not (folder / ERROR).exists() and not (folder / MANIFEST).exists()


def error_of(folder: Path) -> str:
    """Return why a cell failed, in one line; "" if it did not."""
    if not (folder / ERROR).exists():
        return ""
    return str(read_json(folder / ERROR).get("message", "the file with its error cannot be read"))


def move_aside(folder: Path) -> None:
    """Move a damaged cell, whose lock the caller holds, to the study's folder of damaged ones."""
    aside = folder.parent / PRIVATE / "damaged"
    aside.mkdir(parents=True, exist_ok=True)
    places = (aside / f"{folder.name}~{number}" for number in itertools.count(1))
    os.rename(folder, next(place for place in places if not place.exists()))


@contextlib.contextmanager
def finishing(cell: Cell, out: str | Path, state: State) -> Iterator[None]:
    """Let the caller make a cell's files inside; then write the manifest.

    The caller holds the cell's lock. Damaged files are moved aside first. A recorded error is removed.
    """
    folder = Path(out, cell.folder)
    if state.name == "damaged":
        move_aside(folder)
    (folder / ERROR).unlink(missing_ok=True)
    yield
    write_manifest(folder, checkpoint_file.checkpoints(folder))
    checkpoint_file.remove_checkpoints(folder)


def write_error(folder: Path, record: dict[str, Any]) -> None:
    """Record why a cell failed."""
    write_text(folder / ERROR, json.dumps({**record, "version": __version__}, indent=1))
