"""Arrays that grow by tokens, written as .npy files into a folder that is whole or absent."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.checks import check_path
from modtf.files import check_writable, scratch_folder


class TokenArrays:
    """A folder of .npy files whose tokens come in chunks; memory does not grow with them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.whole: dict[str, NDArray[Any]] = {}  # arrays without a tokens axis
        self.num_tokens = 0
        self._first: dict[str, NDArray[Any]] = {}  # of every array nothing, in its shape and type

    def add(self, **chunks: NDArray[Any]) -> None:
        """Adds tokens, `[tokens, ...]` of every array."""
        for name, chunk in chunks.items():
            first = self._first.setdefault(name, chunk[:0])
            with self._raw(name).open("ab") as file:
                chunk.astype(first.dtype, copy=False).tofile(file)
        self.num_tokens += len(chunk)

    def join(self) -> None:
        """Writes every array: layers first, where tokens `[tokens, layers, k]` came first."""
        for name, first in self._first.items():
            shape = (self.num_tokens, *first.shape[1:])
            tokens = np.memmap(self._raw(name), first.dtype, "r", shape=shape)
            np.save(self.folder / f"{name}.npy", np.moveaxis(tokens, 1, 0) if first.ndim == 3 else tokens)
            self._raw(name).unlink()
        for name, values in self.whole.items():
            np.save(self.folder / f"{name}.npy", values)

    def _raw(self, name: str) -> Path:
        return self.folder / f"{name}.raw"


@contextlib.contextmanager
def token_arrays(out: str | Path) -> Iterator[TokenArrays]:
    """Arrays in a folder that takes its name when the block ends without an error.

    Raises:
        ValueError: where it holds something already, or cannot be written.
    """
    check_path("out", out)
    folder = Path(out).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"out={out} is there already; name a new folder, or remove it.")
    check_writable(folder.parent)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(folder.parent) as scratch:
        arrays = TokenArrays(scratch / folder.name)
        arrays.folder.mkdir()
        yield arrays
        arrays.join()
        with contextlib.suppress(FileNotFoundError):
            folder.rmdir()
        arrays.folder.rename(folder)
