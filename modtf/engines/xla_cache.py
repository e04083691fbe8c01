"""Compiled programs that outlive a process: later cells, runs and resumes load what was compiled once.

TensorFlow can keep XLA's programs in a folder, but fails on a damaged file, on a full disk, or when the
folder is removed. So each process has a temporary folder of its own, with links to the programs of the
user's folder that are whole, and puts new ones there after every cell. The user's folder may be damaged,
full or removed at any time: that costs compiling, no more.
"""

import atexit
import contextlib
import os
import platform
import shutil
import tempfile
import zlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from modtf import persistent_cache
from modtf.files import atomic_path, cache_folder
from modtf.persistent_cache import FLAG, VARIABLE
from modtf.task import science_hash
from modtf.training.processor import processor_lines
from modtf.version import __version__

LARGEST = 1 << 28  # bytes of all programs kept: about a hundred
OFF = "MODTF_XLA_CACHE"


class XlaCache:
    """The programs of one process, linked to and added to those of the user.

    Args:
        store: where programs of this kind of processor and these versions are kept.
    """

    def __init__(self, store: Path):
        self.store = store
        self.folder = Path(tempfile.mkdtemp(prefix="modtf-xla-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        for path in store.glob("*.pb"):
            checksum, _, name = path.name.partition("-")
            with contextlib.suppress(OSError):  # another process removes it
                if _checksum(path) == checksum:
                    os.symlink(path, self.folder / name)
                else:
                    path.unlink()

    def keep(self) -> None:
        """Puts new programs into the user's folder, if that can be written."""
        for path in self.folder.glob("*.pb"):
            if path.is_symlink():
                continue
            with contextlib.suppress(OSError):
                kept = self.store / f"{_checksum(path)}-{path.name}"
                with atomic_path(kept) as temporary:
                    shutil.copyfile(path, temporary)
                link = path.with_suffix(".link")
                os.symlink(kept, link)
                os.replace(link, path)


def use_xla_cache() -> XlaCache | None:
    """Has XLA keep its programs; call it before TensorFlow runs anything.

    Nothing is done where the user has chosen a folder in `TF_XLA_FLAGS`, or set `MODTF_XLA_CACHE=0`.

    Example:
        >>> cache = use_xla_cache()  # doctest: +SKIP
        >>> cache.keep()  # doctest: +SKIP
    """
    if persistent_cache.is_used() or os.environ.get(OFF) == "0":
        return None
    base = cache_folder("xla")
    prune(base)
    # TensorFlow does not look at XLA's flags when it looks a program up, though they change what it compiles
    versions = [__version__, *map(_version, ("tensorflow", "keras")), os.environ.get("XLA_FLAGS", "")]
    try:
        cache = XlaCache(base / science_hash([versions, _processor()]))
    except OSError:
        return None
    flags = os.environ.get(VARIABLE, "")
    os.environ[VARIABLE] = f"{flags} {FLAG}={cache.folder}".strip()
    return cache


def prune(base: Path, largest: int = LARGEST) -> None:
    """Removes the programs that were not used for longest, until the rest is within `largest` bytes."""
    found = []
    for path in base.rglob("*.pb"):
        with contextlib.suppress(OSError):  # another process prunes, too
            status = path.stat()
            found.append((max(status.st_atime, status.st_mtime), status.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= largest:
            return
        total -= size
        with contextlib.suppress(OSError):
            path.unlink()


def _checksum(path: Path) -> str:
    return f"{zlib.crc32(path.read_bytes()):08x}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _processor() -> list[str]:
    """What a program is compiled for: model and instructions of the processor."""
    return processor_lines("model name", "flags", "Features") or [platform.machine(), platform.processor()]
