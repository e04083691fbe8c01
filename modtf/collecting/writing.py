"""Arrays that grow by tokens, written as .npy files into a folder that is whole or absent."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.checks import check_path
from modtf.files import check_writable, scratch_folder


class TokenArrays:
    """A folder of .npy files whose tokens come in chunks; memory does not grow with them.

    It takes its name when the block ends without an error, and must not exist before, or be empty."""

    def __init__(self, folder: str | Path):
        check_path("out", folder)
        self.folder = Path(folder).absolute()
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise ValueError(f"out={folder} is there already; name a new folder, or remove it.")
        check_writable(self.folder.parent)
        self.whole: dict[str, NDArray[Any]] = {}  # arrays without a tokens axis
        self.num_tokens = 0

    def __enter__(self) -> "TokenArrays":
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._temporary = scratch_folder(self.folder.parent)
        self.scratch = self._temporary.__enter__() / self.folder.name
        self.scratch.mkdir()
        self._files: dict[str, Any] = {}
        return self

    def add(self, **chunks: NDArray[Any]) -> None:
        """Adds tokens, `[tokens, ...]` of every array."""
        for name, chunk in chunks.items():
            if name not in self._files:
                self._files[name] = (self.scratch / f"{name}.chunks").open("w+b")
            np.save(self._files[name], np.ascontiguousarray(chunk))
        self.num_tokens += len(chunk)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            for file in self._files.values():
                file.close()
            self._temporary.__exit__(kind, error, trace)

    def _finish(self) -> None:
        """Joins the chunks: layers first, where tokens `[tokens, layers, k]` came first."""
        for name, file in self._files.items():
            first = next(chunks := _chunks(file))
            layered = first.ndim == 3
            shape = (self.num_tokens, *first.shape[1:])
            shape = (shape[1], shape[0], shape[2]) if layered else shape
            array = np.lib.format.open_memmap(self.scratch / f"{name}.npy", "w+", first.dtype, shape)
            tokens, begin = np.moveaxis(array, 1, 0) if layered else array, 0
            for chunk in (first, *chunks):
                tokens[begin : begin + len(chunk)] = chunk
                begin += len(chunk)
            array.flush()
            file.close()
            Path(file.name).unlink()
        for name, values in self.whole.items():
            np.save(self.scratch / f"{name}.npy", values)
        with contextlib.suppress(FileNotFoundError):
            self.folder.rmdir()
        self.scratch.rename(self.folder)


def _chunks(file: Any) -> Iterator[NDArray[Any]]:
    file.seek(0)
    with contextlib.suppress(EOFError):
        while True:
            yield np.load(file)
