"""What a router did with tokens, as its user saved it: in an .npz file, .npy files, a folder of them."""

import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from modtf.analysis.routing_page.tables import Names
from modtf.checks import check_integer
from modtf.metrics.tokens.checks import Ints, as_layers, check_labels

BFLOAT16 = np.dtype("V2")  # files do not know it: they say two bytes
CHUNK = 2**16  # tokens between two steps of a progress bar
LOCAL_HEADER = 30  # bytes of a file's header inside a zip file, before its name and its extra field


class Arrays(Mapping[str, NDArray[Any]]):
    """The arrays of a file or folder. Nothing is read before it is asked for, and little then.

    Arrays of .npy files and those that `np.savez` wrote are mapped into memory: what is used of them is read
    when it is used. One that `np.savez_compressed` wrote is decompressed as a whole.

    Args:
        path: an .npz file; a folder of .npy files, by their names; or one .npy file, by the name
            "activations".

    Raises:
        ValueError: if there is nothing of that kind.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        if self.path.is_dir():
            self.files = {file.stem: file for file in sorted(self.path.glob("*.npy"))}
        elif self.path.suffix == ".npy" and self.path.is_file():
            self.files = {"activations": self.path}
        elif self.path.is_file() and zipfile.is_zipfile(self.path):
            with zipfile.ZipFile(self.path) as archive:
                inside = [name for name in archive.namelist() if name.endswith(".npy")]
            self.files = {name.removesuffix(".npy"): self.path for name in inside}
        else:
            what = "is no .npz or .npy file" if self.path.exists() else "does not exist"
            raise ValueError(
                f"{self.path} {what}. Write arrays with numpy.savez('x.npz', activations=..., labels=...), "
                "or each with numpy.save into one folder."
            )

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The array, read-only.

        Raises:
            KeyError: if there is none of that name.
            ValueError: if it cannot be read without running what is in it (an array of objects), or at all.
        """
        file = self.files[name]
        try:
            return _of_archive(file, name) if file.suffix != ".npy" else _of_npy(file)
        except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"The array {name!r} of {file} cannot be read: {error}") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def _of_npy(path: Path) -> NDArray[Any]:
    """The array of an .npy file, mapped into memory.

    Raises:
        ValueError: if it is no such file, or holds objects.
    """
    with path.open("rb") as file:
        return _mapped(path, file)


def _of_archive(path: Path, name: str) -> NDArray[Any]:
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(f"{name}.npy")
        if member.compress_type != zipfile.ZIP_STORED:
            with archive.open(member) as packed:
                return np.lib.format.read_array(packed, allow_pickle=False)
    with path.open("rb") as file:
        file.seek(member.header_offset)
        *_, name_length, extra_length = struct.unpack("<26s2H", file.read(LOCAL_HEADER))
        file.seek(name_length + extra_length, 1)
        return _mapped(path, file)


def _mapped(path: Path, file: IO[bytes]) -> NDArray[Any]:
    """The array whose .npy header the file stands at."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects. Save numbers, and names as text: numpy.array(names, str)")
    if 0 in shape:
        return np.zeros(shape, dtype)
    order: Literal["C", "F"] = "F" if is_fortran else "C"
    return np.memmap(path, dtype, mode="r", offset=file.tell(), shape=shape, order=order)


@dataclass(frozen=True)
class Routing:
    """Activations `[layers, tokens, M]`, the label of every token `[tokens]`, its document; names.

    Example:
        >>> routing = Routing.read("x.npz")  # doctest: +SKIP
        >>> layers = modtf.measure_activations(routing.chunks())  # doctest: +SKIP
        >>> write_atlas(layers, "folder", routing.names)  # doctest: +SKIP
    """

    activations: NDArray[Any]
    labels: Ints
    documents: Ints | None
    names: Names

    @classmethod
    def read(
        cls,
        path: str | Path,
        activations: str = "activations",
        labels: str = "labels",
        documents: str | None = None,
        label_names: str | None = None,
        layer_names: str | None = None,
    ) -> "Routing":
        """Reads all but the activations, and checks the shapes of these.

        Args:
            path: see `Arrays`.
            activations: the name of the array of gates or logits, `[tokens, M]` or `[layers, tokens, M]`.
            labels: of integers from 0, or names, `[tokens]`: the name of an array, or an .npy file.
            documents: of integers from 0 or names, `[tokens]`; None: the array "documents", if there is one.
            label_names: of names, in the order of the numbers of labels; None as above.
            layer_names: of one name for each layer; None as above.

        Raises:
            ValueError: if one is missing or does not fit the others.
        """
        arrays = Arrays(path)
        given = _find(arrays, activations)
        if given.dtype.kind not in "fiub" and given.dtype != BFLOAT16:
            raise ValueError(
                f"The array {activations!r} of {path} is of type {given.dtype}; expected numbers."
            )
        as_layers(given[..., :0, :].astype(np.float32) if given.ndim > 1 else given)  # refuses other shapes
        gates = given[np.newaxis] if given.ndim == 2 else given
        num_layers, num_tokens, _ = gates.shape
        classes, found = _numbers(_find(arrays, labels), num_tokens, "labels")
        chosen = _find_optional(arrays, "documents", documents)
        ids = None if chosen is None else _numbers(chosen, num_tokens, "documents")[0]
        names_of_labels = _names(_find_optional(arrays, "label_names", label_names))
        if found is not None and names_of_labels is not None:
            raise ValueError("labels are names themselves; leave out label_names, or number the labels.")
        names_of_labels = found or names_of_labels
        if names_of_labels is not None and num_tokens and classes.max() >= len(names_of_labels):
            raise ValueError(
                f"labels go up to {classes.max()}, but there are {len(names_of_labels)} label_names; "
                f"expected at least {classes.max() + 1}: label i has the name label_names[i]."
            )
        names_of_layers = _names(_find_optional(arrays, "layer_names", layer_names))
        if names_of_layers is not None and len(names_of_layers) != num_layers:
            raise ValueError(
                f"There are {len(names_of_layers)} layer_names; expected {num_layers}, one a layer."
            )
        return cls(gates, classes, ids, Names(names_of_labels, names_of_layers))

    def check_top_k(self, top_k: int | None) -> None:
        """Raises `ValueError` unless tokens can be sent to that many modules."""
        most = self.activations.shape[2]
        if top_k is not None and check_integer("top_k", top_k, 1) > most:
            raise ValueError(f"top_k={top_k}, but there are only {most} modules.")

    def check_label_probs(self, probs: Sequence[float] | str | None) -> None:
        """Raises `ValueError` unless there is one for each label that occurs, and they sum to 1."""
        if probs is None or isinstance(probs, str):
            return
        num_labels = len(np.unique(self.labels))
        if len(probs) != num_labels:
            raise ValueError(
                f"There are {len(probs)} label_probs; expected {num_labels}, one a label that occurs."
            )
        if not (min(probs) >= 0 and abs(sum(probs) - 1.0) < 1e-6):
            raise ValueError(f"label_probs sum to {sum(probs):.6g}; expected numbers from 0 that sum to 1.")

    @property
    def num_chunks(self) -> int:
        """How many chunks there are."""
        return -(-len(self.labels) // CHUNK)

    def chunks(self) -> Iterator[tuple[NDArray[Any], Ints, Ints | None]]:
        """(activations, labels, documents or None) of some tokens after others."""
        for start in range(0, len(self.labels), CHUNK):
            part = slice(start, start + CHUNK)
            ids = None if self.documents is None else self.documents[part]
            gates = self.activations[:, part]
            if gates.dtype == BFLOAT16:  # the upper half of a float32
                gates = (gates.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
            yield gates, self.labels[part], ids


def _find(arrays: Arrays, name: str) -> NDArray[Any]:
    """The array of that name, or of that file."""
    if name in arrays:
        return arrays[name]
    if name.endswith(".npy"):
        return Arrays(name)["activations"]
    raise ValueError(
        f"There is no array {name!r} in {arrays.path}; there are {', '.join(arrays) or 'none at all'}. Say "
        "which one it is, or give an .npy file of its own."
    )


def _find_optional(arrays: Arrays, usual: str, name: str | None) -> NDArray[Any] | None:
    if name is not None:
        return _find(arrays, name)
    return arrays.get(usual)


def _numbers(values: NDArray[Any], num_tokens: int, what: str) -> tuple[Ints, tuple[str, ...] | None]:
    """Labels or documents as integers, and the names that they were given as."""
    if values.dtype.kind not in "US":
        return check_labels(values, num_tokens, what), None
    names, numbers = np.unique(values, return_inverse=True)
    return check_labels(numbers, num_tokens, what), _names(names)


def _names(values: NDArray[Any] | None) -> tuple[str, ...] | None:
    if values is None:
        return None
    return tuple(value.decode() if isinstance(value, bytes) else str(value) for value in values.ravel())
