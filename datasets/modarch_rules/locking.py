"""One process prepares a dataset at a time, and what a killed one left behind is removed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from absl import logging
from etils import epath
from filelock import FileLock, Timeout


def is_complete(directory: str | os.PathLike[str]) -> bool:
    """Whether a dataset stands in `directory`. TFDS writes its info last, then renames the directory."""
    return (epath.Path(directory) / "dataset_info.json").exists()


@contextmanager
def exclusive(directory: str | os.PathLike[str]) -> Iterator[None]:
    """Holds the lock of `directory`, which need not exist; waits while another process holds it.

    The operating system frees the lock of a killed process. Object stores ("gs://...") have no locks:
    there, prepare in one process.
    """
    if "://" in os.fspath(directory):
        yield
        return
    path = Path(directory)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        logging.info("Waiting for another process that prepares %s.", path)
        lock.acquire()
    try:
        # whoever wrote these did not finish, or would still hold the lock
        for unfinished in path.parent.glob(f"incomplete.*_{path.name}"):
            shutil.rmtree(unfinished)
        if path.exists() and not is_complete(path):
            shutil.rmtree(path)
        yield
    finally:
        lock.release()
