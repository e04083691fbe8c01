"""How far a cell of a study is, as the disk tells it: unfinished until its manifest is written, last."""

import hashlib
import itertools
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modtf.cell import Cell
from modtf.files import write_text
from modtf.results.schema import CONFIG, DIVERGED, HISTORY, HISTORY_COLUMNS, PRIVATE, RESULTS, read_values
from modtf.training import archive
from modtf.version import __version__

MANIFEST = "manifest.json"  # the files of a finished cell, with sizes and checksums
ERROR = "error.json"  # why a cell failed


@dataclass(frozen=True)
class State:
    """What is known of a cell: "finished", "failed", "damaged" or "open" (unfinished or not begun)."""

    name: str
    reason: str = ""  # of a failure or a damage, in one line
    version: str = __version__  # of modtf that finished it

    def remark(self, name: str) -> str:
        """What a reader should know of the cell `name` before it is run; empty where nothing."""
        damaged = f"{name} is damaged: {self.reason}. It is set aside, and run again."
        return damaged if self.name == "damaged" else ""

    @property
    def is_of_another_version(self) -> bool:
        """Whether its numbers may differ from those of this version: they may where major.minor do."""
        return self.version.split(".")[:2] != __version__.split(".")[:2]


def state_of(cell: Cell, out: str | Path, *, thorough: bool = False) -> State:
    """How far a cell is; `thorough` compares the checksums of all files, not only of the results'."""
    folder = Path(out, cell.folder)
    before_manifests = (folder / RESULTS).exists() and not archive.checkpoints(folder)
    if before_manifests or (folder / MANIFEST).exists():
        return _finished(folder, thorough)
    if (folder / ERROR).exists():
        record = _read(folder / ERROR)
        return State("failed", str(record.get("message", "its error cannot be read")))
    return State("open")


def finish(cell: Cell, out: str | Path, train: Callable[[], object]) -> None:
    """Has a cell's files made in its folder, then writes the manifest. The caller holds the cell's lock.

    What is damaged is set aside before, never deleted; a recorded error is forgotten.
    """
    folder = Path(out, cell.folder)
    if state_of(cell, out).name == "damaged":
        aside = Path(out, PRIVATE, "damaged")
        aside.mkdir(parents=True, exist_ok=True)
        places = (aside / f"{folder.name}~{number}" for number in itertools.count(1))
        os.rename(folder, next(place for place in places if not place.exists()))
    (folder / ERROR).unlink(missing_ok=True)
    train()
    write_manifest(folder)
    archive.remove_checkpoints(folder)


def write_manifest(folder: Path) -> None:
    """Records the files of a finished cell, and its members that diverged."""
    left_out = {folder / MANIFEST, *archive.checkpoints(folder)}
    files = {
        path.name: {"size": path.stat().st_size, "blake2b": _checksum(path)}
        for path in sorted(folder.iterdir())
        if path.is_file() and path not in left_out
    }
    record = {"version": __version__, "diverged": diverged(folder), "files": files}
    write_text(folder / MANIFEST, json.dumps(record, indent=1))


def diverged(folder: Path) -> list[dict[str, int]]:
    """The members of a cell whose numbers are none any more: data_seed, seed and step of the first such."""
    path = folder / HISTORY
    if not path.exists():
        return []
    frame = read_values(path)
    if not set(HISTORY_COLUMNS) <= set(frame):
        return []
    # "loss" stands there whatever the setting; other measures may have no value for good reasons. An outcome
    # may be no number where the weights still are some, and at evaluations alone
    no_number = (frame["measure"] == "loss") & ~np.isfinite(frame["value"])
    lost = frame[no_number | (frame["measure"] == DIVERGED)]
    first = lost.groupby(["data_seed", "seed"])["step"].min()
    return [{"data_seed": int(d), "seed": int(s), "step": int(step)} for (d, s), step in first.items()]


def write_error(folder: Path, record: dict[str, Any]) -> None:
    """Records why a cell failed."""
    write_text(folder / ERROR, json.dumps({**record, "version": __version__}, indent=1))


def _finished(folder: Path, thorough: bool) -> State:
    manifest = _read(folder / MANIFEST)
    version = str(manifest.get("version") or _read(folder / CONFIG).get("version", __version__))
    if "files" not in manifest:  # from before there were manifests, or damaged
        whole = not (folder / MANIFEST).exists() and (folder / RESULTS).read_bytes()[-1:] == b"\n"
        return State("finished", version=version) if whole else State("damaged", f"{RESULTS} is not whole")
    try:
        for name, wanted in manifest["files"].items():
            path = folder / name
            if not path.is_file() or path.stat().st_size != wanted["size"]:
                return State("damaged", f"{name} is missing or has another size than when it was written")
            if (thorough or name == RESULTS) and _checksum(path) != wanted["blake2b"]:
                return State("damaged", f"{name} has another content than when it was written")
    except (AttributeError, KeyError, TypeError, ValueError):  # somebody changed the list
        return State("damaged", f"{MANIFEST} is not as it was written")
    return State("finished", version=version)


def _read(path: Path) -> dict[str, Any]:
    """A JSON file's dict; empty where there is none, or none that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
