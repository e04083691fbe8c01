"""The .safetensors format, bfloat16 included. Arrays are mapped into memory."""

import json
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.registry import FORMATS, Format, Readers
from modtf.routing.formats.source import Source
from modtf.routing.measuring.layers import BFLOAT16

LENGTH = 8  # bytes that hold the length of the header
#: type in the file -> type in NumPy
TYPES = {
    **{f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)},
    "BF16": str(BFLOAT16),
    "BOOL": "?",
}


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
