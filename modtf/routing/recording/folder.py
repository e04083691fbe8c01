"""Keep the routing of tokens on disk while a model runs, and write it as a folder of arrays."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.base.checks import check_path
from modtf.base.files import check_writable, scratch_folder

BUFFERED = 2**15  # tokens held in memory before they are written
PART = 2**18  # tokens copied at a time
Run = tuple[int, int]  # a layer, and the number of its run within a forward pass


class TokenArrays:
    """Arrays of tokens that arrive in chunks, kept in a scratch folder so that memory does not grow."""

    def __init__(self, scratch: Path):
        self.scratch = scratch
        self.num_tokens = 0
        self.first: dict[Run, int] = {}  # layer -> the first token of the pass in which it first ran
        self._chunks: dict[str, list[NDArray[Any]]] = {}
        self._kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self._waiting = 0

    def add(self, layers: Mapping[Run, tuple[NDArray[Any], NDArray[Any]]], **values: NDArray[Any]) -> None:
        """Add tokens.

        Args:
            layers: experts and weights `[tokens, k]` of each run of a layer. If a layer ran before but does
                not run now, it routes none of these tokens, and their experts are -1.
            values: arrays `[tokens]` by name; the names are the same in every call.
        """
        size = len(next(iter(values.values())))
        for run, (experts, weights) in layers.items():
            self.first.setdefault(run, self.num_tokens)
            self._put(f"experts.{run[0]}.{run[1]}", experts)
            self._put(f"weights.{run[0]}.{run[1]}", weights)
        for run in self.first.keys() - layers.keys():
            for kind, rest in (("experts", -1), ("weights", 0)):
                name = f"{kind}.{run[0]}.{run[1]}"
                dtype, shape = self._kinds[name]
                self._put(name, np.full((size, *shape), rest, dtype))
        for name, chunk in values.items():
            self._put(name, chunk)
        self.num_tokens += size
        self._waiting += size
        if self._waiting >= BUFFERED:
            self._flush()

    def _put(self, name: str, chunk: NDArray[Any]) -> None:
        _, shape = self._kinds.setdefault(name, (chunk.dtype, chunk.shape[1:]))
        if chunk.shape[1:] != shape:
            raise ValueError(
                f"A layer chose {shape[-1]} experts per token before and {chunk.shape[-1]} now; expected "
                "the same number."
            )
        self._chunks.setdefault(name, []).append(chunk)

    def _flush(self) -> None:
        for name, chunks in self._chunks.items():
            with (self.scratch / name).open("ab") as file:
                np.concatenate(chunks).astype(self._kinds[name][0], copy=False).tofile(file)
        self._chunks, self._waiting = {}, 0

    def read(self, name: str) -> NDArray[Any]:
        """Return an array `[tokens, ...]`, mapped into memory."""
        self._flush()
        dtype, shape = self._kinds[name]
        path = self.scratch / name
        if not path.exists() or not path.stat().st_size:
            return np.zeros((0, *shape), dtype)
        return np.memmap(path, dtype, "r").reshape(-1, *shape)

    def join(self, kind: str, order: NDArray[np.int64] | None, path: Path) -> None:
        """Write experts or weights of all layers, `[layers, tokens, k]`, as a .npy file.

        Tokens before a layer's first run have experts -1. Layers with fewer experts per token than others
        are padded with -1.
        """
        runs = sorted(self.first)
        parts = [self.read(f"{kind}.{layer}.{run}") for layer, run in runs]
        rest = -1 if kind == "experts" else 0
        shape = (len(runs), self.num_tokens, max(part.shape[1] for part in parts))
        whole = np.lib.format.open_memmap(path, "w+", parts[0].dtype, shape)
        for row, run, part in zip(whole, runs, parts, strict=True):
            first = self.first[run]
            for start in range(0, self.num_tokens, PART):
                tokens = np.arange(start, min(start + PART, self.num_tokens))
                places = (tokens if order is None else order[tokens]) - first
                row[tokens] = rest
                ran = places >= 0
                row[tokens[ran], : part.shape[1]] = part[places[ran]]
        whole.flush()

    def save(self, folder: Path, others: Mapping[str, NDArray[Any]]) -> None:
        """Write all arrays into an existing folder. The tokens of each document are contiguous."""
        documents = self.read("documents")
        in_order = bool((np.diff(documents) >= 0).all())
        order = None if in_order else np.argsort(documents, kind="stable")
        for kind in ("experts", "weights"):
            self.join(kind, order, folder / f"{kind}.npy")
        for name in self._kinds:
            if "." not in name:
                values = self.read(name)
                np.save(folder / f"{name}.npy", values if order is None else values[order])
        for name, whole in others.items():
            np.save(folder / f"{name}.npy", whole)


@contextlib.contextmanager
def new_folder(out: str | Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `out` when the block ends without an error."""
    folder = check_new_folder(out)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(folder.parent) as scratch:
        made = scratch / folder.name
        made.mkdir()
        yield made
        with contextlib.suppress(FileNotFoundError):
            folder.rmdir()
        made.rename(folder)


def check_new_folder(out: str | Path) -> Path:
    """Return the absolute path of a folder that can be made; `ValueError` if it cannot."""
    check_path("out", out)
    folder = Path(out).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"out={out} exists already. Choose a new folder, or remove it.")
    check_writable(folder.parent)
    return folder
