"""Arrays by name: NumPy's .npy and .npz, .safetensors (bfloat16 included), and arrays in memory.

Arrays in files are mapped into memory, unless they are compressed.
"""

import json
import struct
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.base.files import check_ratio
from modtf.routing.formats.joined import in_memory
from modtf.routing.formats.registry import FORMATS, ROUTED, Format, Readers
from modtf.routing.formats.source import Source
from modtf.routing.measuring.layers import BFLOAT16, as_array

LOCAL_HEADER = 30  # bytes of an entry's header in a zip file, before its name and its extra field
LENGTH = 8  # bytes that hold the length of the header
#: type in the file -> type in NumPy
TYPES = {
    **{f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)},
    "BF16": str(BFLOAT16),
    "BOOL": "?",
}


@FORMATS.register("npy")
class Npy(Format):
    """A folder of .npy files, which name their arrays, or one file with the array "activations"."""

    rank = 0
    ending = ".npy"

    @classmethod
    def detect(cls, source: Source) -> bool:
        """Return whether the source is one file, or a folder that holds routing under a usual name."""
        is_file = source.path is not None and source.path.is_file()
        return any(is_file or file.stem in ROUTED for file in source.files(cls.ending))

    @classmethod
    def read(cls, source: Source) -> Readers:
        files, is_folder = source.files(cls.ending), source.path is not None and source.path.is_dir()
        return {file.stem if is_folder else "activations": partial(_mapped, file) for file in files}


def _mapped(path: Path, start: int = 0) -> NDArray[Any]:
    """Return the array whose .npy header starts at the byte `start` of a file, mapped into memory."""
    with path.open("rb") as file:
        file.seek(start)
        is_first = np.lib.format.read_magic(file) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read(file)
        begin = file.tell()
    if dtype.hasobject:
        raise ValueError("it holds Python objects. Save numbers, or names as text by numpy.array(names, str)")
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", begin, shape, "F" if is_fortran else "C")


@FORMATS.register("npz")
class Npz(Format):
    """One .npz file."""

    rank = 0
    ending = ".npz"

    @classmethod
    def read(cls, source: Source) -> Readers:
        path = source.one_file(cls.ending)
        with zipfile.ZipFile(path) as archive:
            inside = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        return {name: partial(_member, path, name) for name in inside}


def _member(path: Path, name: str) -> NDArray[Any]:
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(f"{name}.npy")
        check_ratio(path, [member])
        if member.compress_type != zipfile.ZIP_STORED:
            with archive.open(member) as packed:
                return np.lib.format.read_array(packed, allow_pickle=False)
    with path.open("rb") as file:
        file.seek(member.header_offset)
        *_, name_length, extra_length = struct.unpack("<26s2H", file.read(LOCAL_HEADER))
    return _mapped(path, member.header_offset + LOCAL_HEADER + name_length + extra_length)


@FORMATS.register("safetensors")
class Safetensors(Format):
    """One .safetensors file. The library's own reader for NumPy refuses bfloat16."""

    rank = 0
    ending = ".safetensors"

    @classmethod
    def read(cls, source: Source) -> Readers:
        return {name: read for name, (_, read) in tensors_of(source.one_file(cls.ending)).items()}


def tensors_of(path: Path) -> dict[str, tuple[tuple[int, ...], Callable[[], NDArray[Any]]]]:
    """Return the shape of each array of a file, and a function that maps it into memory."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(LENGTH)
        length = struct.unpack("<Q", start)[0] if len(start) == LENGTH else size
        if LENGTH + length > size:
            raise ValueError(f"it is truncated: its {size} bytes are fewer than its header needs")
        header = json.loads(file.read(length))
    if not isinstance(header, dict):
        raise ValueError(f"its header is a {type(header).__name__}; expected the arrays by name")
    arrays: dict[str, tuple[tuple[int, ...], Callable[[], NDArray[Any]]]] = {}
    for name, one in header.items():
        if name != "__metadata__":
            dtype, shape, begin = _entry(name, one, size - LENGTH - length)
            arrays[name] = shape, partial(_array, path, dtype, shape, LENGTH + length + begin)
    return arrays


def _entry(name: str, one: Any, size: int) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Return the type, shape and first byte of an array; `ValueError` if its header entry is invalid."""
    try:
        shape, (begin, end) = tuple(map(int, one["shape"])), one["data_offsets"]
        kind = one["dtype"]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the entry {name!r} of its header is invalid") from error
    if kind not in TYPES:
        raise ValueError(f"{name!r} is of type {kind}; save it as one of {', '.join(TYPES)}")
    dtype = np.dtype(TYPES[kind])
    if not 0 <= begin <= end <= size or dtype.itemsize * np.prod(shape, dtype=object) != end - begin:
        raise ValueError(f"{name!r} has shape {shape} in bytes {begin} to {end} of {size}")
    return dtype, shape, begin


def _array(path: Any, dtype: np.dtype[Any], shape: tuple[int, ...], begin: int) -> NDArray[Any]:
    return np.memmap(path, dtype, "r", begin, shape or (1,)) if 0 not in shape else np.zeros(shape, dtype)


@FORMATS.register("mapping")
class ArraysInMemory(Format):
    """A dict of arrays or tensors, such as `{"experts": ..., "num_experts": 64, "labels": ...}`."""

    rank = 3

    @classmethod
    def detect(cls, source: Source) -> bool:
        return any(source.first_has(name) for name in ROUTED)

    @classmethod
    def read(cls, source: Source) -> Readers:
        contents = list(source.contents())
        if len(contents) != 1 or not isinstance(contents[0][1], Mapping):
            raise ValueError(f"it holds {len(contents)} objects; expected one dict of arrays")
        return in_memory({str(name): as_array(values) for name, values in contents[0][1].items()})
