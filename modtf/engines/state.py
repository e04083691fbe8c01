"""The state of a cell on disk, its lock, and the work on it.

A cell is finished once its manifest is written, which happens last. One process works on a cell at a time.
Its lock is one of the operating system, and ends with its process. The file OUT/.modtf/locks/CELL.lock lies
outside the cell's folder and is never removed: a process that waited for a removed file would lock nothing.
A text file beside it names the holder, and counts the steps of its cell.
"""

import contextlib
import errno
import itertools
import json
import os
import socket
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, SoftFileLock, Timeout

from modtf.base.files import FULL, read_text, remove_unfinished, write_text
from modtf.base.registry import Registry
from modtf.base.version import __version__
from modtf.base.words import one_line, plural
from modtf.metrics import MEASURES
from modtf.models.architectures import ARCHITECTURES
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS
from modtf.models.source import hash_of_source
from modtf.results.cells import is_finished, read_config
from modtf.results.schema import (
    CONFIG,
    ERROR,
    MANIFEST,
    MEASURE_SOURCES,
    PRIVATE,
    damage_of,
    read_json,
    write_manifest,
)
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES
from modtf.tasks.task import science_hash
from modtf.training import checkpoint_file

PATIENCE = 0.3  # seconds to wait for a lock: `is_locked` of another process takes it for less
EVERY = 0.5  # seconds between two counts of steps
UNKNOWN = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # the file system has no locks
NO_LOCKS = "{} is on a file system that cannot lock files, so two processes might run the same cell. "
NO_LOCKS += "Choose a folder on another file system as --out."

Report = Callable[[int], None]  # receives the number of finished steps of a cell


class StopError(ValueError):
    """The reason why no cell of a study can run, such as a full disk."""


class LockedError(ValueError):
    """Another process works on the cell."""


class NoLocksError(StopError):
    """The study's file system does not support locks."""


@contextmanager
def locked(out: str | Path, name: str, patience: float = PATIENCE) -> Iterator[Report]:
    """Hold the lock of the cell in folder `name` of a study against all other processes and threads.

    It waits `patience` seconds for the lock, without a limit if that is -1. It yields a function of finished
    steps, which `holders` then returns.

    Raises `LockedError`, which names the holder; `NoLocksError` if the file system has no locks: filelock's
    substitute outlives a killed process.
    """
    path = Path(out, PRIVATE, "locks", name + ".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    holder, lock = path.with_suffix(".txt"), FileLock(path, fallback_to_soft=False)
    try:
        lock.acquire(timeout=patience)
    except Timeout:
        who = "another process"
        with contextlib.suppress(OSError, ValueError):
            who = read_text(holder).partition("\n")[0]
        raise LockedError(
            f"{Path(out, name)} is in use by {who}. Wait until it ends (run --wait), or choose another --out."
        ) from None
    except (NotImplementedError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in UNKNOWN:
            raise
        raise NoLocksError(NO_LOCKS.format(out)) from error
    since, written = time.strftime("%Y-%m-%d %H:%M:%S"), 0.0

    def report(steps: int) -> None:
        nonlocal written
        if time.monotonic() - written > EVERY:
            written, new = time.monotonic(), holder.with_suffix(".new")
            with contextlib.suppress(OSError):  # such as a full disk, which the cell reports
                new.write_text(f"{this_process()} since {since}\n{steps}", encoding="utf-8")
                new.replace(holder)

    try:
        if isinstance(lock, SoftFileLock):
            raise NoLocksError(NO_LOCKS.format(out))
        report(0)
        yield report
    finally:
        with contextlib.suppress(OSError):
            holder.unlink(missing_ok=True)
        lock.release()


def holders(out: str | Path) -> dict[str, tuple[str, int]]:
    """Return which process works on a cell, and its finished steps, by the cell's folder.

    A killed process may still be listed.
    """
    known = {}
    for path in Path(out, PRIVATE, "locks").glob("*.txt"):
        with contextlib.suppress(OSError, ValueError):
            line, _, steps = read_text(path).partition("\n")
            known[path.stem] = line.partition(" since ")[0], int(steps or 0)
    return known


def is_locked(out: str | Path, name: str) -> bool:
    """Return whether a process works on a cell."""
    try:
        with locked(out, name):
            return False
    except LockedError:
        return True


def remove_left(out: str | Path, name: str = "*") -> None:
    """Remove the file that names a cell's holder, if a kill left it behind and nobody holds the cell."""
    for holder in Path(out, PRIVATE, "locks").glob(f"{name}.txt"):
        with contextlib.suppress(NoLocksError, OSError):  # such as a read-only folder
            is_locked(out, holder.stem)  # takes a free lock, and removes the file


def this_process(process: int | None = None) -> str:
    """Return the number and machine of this process, or of another one of this machine, for people to
    read."""
    return f"process {process or os.getpid()} on {socket.gethostname()}"


SOURCE = "source"  # in the config: hash of a registered model's file; "router_source", ... of other parts


@dataclass(frozen=True)
class State:
    """The state of a cell: "finished", "failed", "damaged" or "open" (unfinished or not begun)."""

    name: str
    reason: str = ""  # of a failure or damage, in one line
    version: str = __version__  # the version of modtf that finished it, or wrote its checkpoint

    def remark(self, name: str) -> str:
        """Return what a reader should know about the cell `name` before it runs; "" if nothing."""
        if self.name == "damaged":
            return f"{name} is damaged: {self.reason}. It is moved aside and run again."
        other = f"{name} was begun by modtf {self.version}, whose numbers may differ. It goes on from its "
        other += "checkpoint; to begin anew, remove its folder."
        return other if self.name == "open" and self.is_of_another_version else ""

    @property
    def is_of_another_version(self) -> bool:
        """Whether the cell's version has another major.minor number, so that its results may differ."""
        return self.version.split(".")[:2] != __version__.split(".")[:2]


def other_versions(states: Iterable[State]) -> list[str]:
    """Return a line for each other version of modtf that finished some of the cells."""
    other = Counter(s.version for s in states if s.name == "finished" and s.is_of_another_version)
    return [
        f"{plural(count, 'cell')} finished by modtf {version}, whose numbers may differ; they are kept. To "
        "run them again, choose another --out."
        for version, count in sorted(other.items())
    ]


def state_of(cell: Cell, out: str | Path) -> State:
    """Return the state of a cell; remove leftovers of a kill right after a finished cell's manifest.

    Raise `ValueError` if the folder belongs to another cell, or the file of a registered model, router,
    architecture or family has changed, or that of its data or trainer, or of a measure in its checkpoint.
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
    version = __version__
    if checkpoint_file.checkpoints(folder):
        check_measures(folder, config)
        version = str(config.get("version") or __version__)
    return State("failed", reason) if (reason := error_of(folder)) else State("open", version=version)


def check_measures(folder: Path, config: dict[str, Any]) -> None:
    """Raise `ValueError` if the file of a registered measure has changed since a cell was begun."""
    for name, source in (config.get(MEASURE_SOURCES) or {}).items():
        if name in MEASURES.outside and source not in (None, hash_of_source(MEASURES[name].function)):
            raise ValueError(
                f"{folder} holds a checkpoint with values of the measure {name!r}, whose file has changed "
                "since. Register the new measure under another name, choose another --out, or remove the "
                "folder."
            )


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
        if config.get(key) not in (None, now[key]):  # None: a notebook's class, or an older version
            raise ValueError(
                f"{folder} holds results of the {kind} {name!r}, whose file has changed since. Register the "
                f"new {kind.split()[-1]} under another name, choose another --out, or remove the folder."
            )


def recorded_source(cell: Cell) -> dict[str, Any]:
    """Return the sources to record for the cell's registered parts, which their names do not identify."""
    outside = _from_outside(cell).values()
    sources: dict[str, Any] = {key: hash_of_source(thing) for key, _, thing in outside}
    measures = {name: hash_of_source(MEASURES[name].function) for name in MEASURES.outside}
    return sources | ({MEASURE_SOURCES: measures} if measures else {})


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
        for kind, key, name, module in (
            ("data of the family", "data_source", family.name, _module_of(family.data)),
            ("trainer of the variant", "trainer_source", variant.name, _module_of(variant.trainer)),
        ):
            if module != type(family).__module__ and module.partition(".")[0] != "modtf":
                outside[kind] = key, name, module
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


#: trains a cell: (cell, folder that holds the cell's folder, function that receives finished steps)
CellFunction = Callable[[Cell, Path, Report], Any]
TRAIN = "modtf.engines.cell:train_and_report"  # reference to the usual one


def work_on(cell: Cell, out: str | Path, function: CellFunction) -> bool:
    """Run a cell, unless it has ended; return False if another process works on it.

    A failure is recorded with its traceback in the cell's folder, next to the checkpoint. Raise `StopError`
    if the disk is full.
    """
    try:
        with locked(out, cell.folder, patience=0.0) as report:
            state = state_of(cell, out)
            if state.name not in ("finished", "failed"):
                _record_failure(cell, Path(out), state, function, report)
        return True
    except LockedError:
        return False
    except Exception as error:
        if not _is_disk_full(error):
            raise
        raise StopError(f"the disk of {out} is full; free some space and rerun the command") from error


def fail_cell(cell: Cell, out: str | Path, reason: str) -> None:
    """Record that a cell has failed because its workers died; see `work_on`."""

    def fail(*_: object) -> None:
        raise RuntimeError(reason)

    work_on(cell, out, fail)


def _record_failure(cell: Cell, out: Path, state: State, function: CellFunction, report: Report) -> None:
    """Train a cell, and record its failure if it fails."""
    try:
        with finishing(cell, out, state):
            function(cell, out, report)
    except Exception as error:
        if _is_disk_full(error):
            raise
        line = one_line(f"{type(error).__name__}: {error}", 500)
        (out / cell.folder).mkdir(exist_ok=True)
        record = {"message": line, "traceback": traceback.format_exc(), "where": this_process()}
        write_error(out / cell.folder, record)


def _is_disk_full(error: BaseException | None) -> bool:
    """Return whether an error, or its cause, is a full disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        error = error.__cause__ or error.__context__
    return False
