"""The manifest: checksums and sizes of a finished cell's files, `manifest.json`, written last.

It holds the checksums of tables, matrices and config, and the sizes of weights. Weights are checked when
they are loaded.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from modtf.base.files import read_text, regular_file, walk, write_text
from modtf.base.version import __version__
from modtf.results.schema import (
    ACTIVATION,
    CONFIG,
    CORRECTIONS,
    DIVERGED,
    HISTORY,
    HISTORY_COLUMNS,
    RESULTS,
    read_values,
)
from modtf.tasks.task import science_hash

MANIFEST = "manifest.json"
READ = (
    CONFIG,
    RESULTS,
    HISTORY,
    ACTIVATION,
    CORRECTIONS,
)  # the files that tables and figures need: no models
CHECKSUM, DIGEST = "blake2b", "digest"


def write_manifest(folder: Path, but: Iterable[Path] = (), version: str = __version__) -> None:
    """Record the files of a finished cell, except those in `but`, and its members that diverged."""
    left_out = {folder / MANIFEST, *but}
    files: dict[str, dict[str, Any]] = {}
    for path in sorted(parent / name for parent, _, names in walk(folder) for name in names):
        if path.is_file() and path not in left_out:
            name = path.relative_to(folder).as_posix()
            files[name] = {"size": path.stat().st_size} | (
                {CHECKSUM: _checksum(path)} if name in READ else {}
            )
    record = {"version": version, "diverged": diverged(folder), "files": files}
    write_text(folder / MANIFEST, json.dumps({**record, DIGEST: science_hash(record)}, indent=1))


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON file's dict; empty if the file is absent or unreadable."""
    try:
        content = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def damage_of(folder: Path, weights: bool = True) -> str:
    """Return what differs from the manifest of a finished cell, in a few words; "" if nothing does.

    Without `weights`, missing weights are not damage: some users copy without them.
    """
    if not (folder / MANIFEST).exists():
        return f"{MANIFEST} is missing"
    record = read_json(folder / MANIFEST)
    try:
        if record.pop(DIGEST, None) == science_hash(record):
            return _difference(folder, record["files"], weights)
    except (AttributeError, KeyError, TypeError, ValueError, OSError):  # the list was edited
        pass
    return f"{MANIFEST} was changed after it was written"


def _difference(folder: Path, files: dict[str, Any], weights: bool) -> str:
    if not {CONFIG, RESULTS} <= set(files):
        raise ValueError(f"{MANIFEST} lacks files that every finished cell has")
    for name in {*files, *(name for name in READ if (folder / name).exists())}:
        path = folder / name
        if name not in files:
            return f"{name} is not one of its files"
        if not path.is_file():
            if name in READ or weights:
                return f"{name} is missing"
        elif path.stat().st_size != files[name]["size"]:
            return f"the size of {name} changed after it was written"
        elif name in READ and _checksum(path) != files[name][CHECKSUM]:
            return f"the content of {name} changed after it was written"
    return ""


def diverged(folder: Path) -> list[dict[str, int]]:
    """Return the members of a cell with numbers that are not finite: data_seed, seed and first step."""
    path = folder / HISTORY
    if not path.exists():
        return []
    frame = read_values(path)
    if not set(HISTORY_COLUMNS) <= set(frame):
        return []
    # Every setting has "loss"; other measures may lack a value for good reasons. A loss may be NaN while the
    # weights are still finite, and is known at evaluations only
    no_number = (frame["measure"] == "loss") & ~np.isfinite(frame["value"])
    lost = frame[no_number | (frame["measure"] == DIVERGED)]
    first = lost.groupby(["data_seed", "seed"])["step"].min()
    return [{"data_seed": int(d), "seed": int(s), "step": int(step)} for (d, s), step in first.items()]


def _checksum(path: Path) -> str:
    with regular_file(path).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
