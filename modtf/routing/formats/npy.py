"""NumPy's .npy files: one file, or a folder of them. They are mapped into memory."""

from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.registry import FORMATS, ROUTED, Format, Readers
from modtf.routing.formats.source import Source


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
        return {file.stem if is_folder else "activations": partial(_open, file) for file in files}


def _open(path: Path) -> NDArray[Any]:
    with path.open("rb") as file:
        return mapped(path, file)


def mapped(path: Path, file: IO[bytes]) -> NDArray[Any]:
    """Return the array whose .npy header starts at the file's position, mapped into memory."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects. Save numbers, or names as text by numpy.array(names, str)")
    if 0 in shape:
        return np.zeros(shape, dtype)
    order: Literal["C", "F"] = "F" if is_fortran else "C"
    return np.memmap(path, dtype, mode="r", offset=file.tell(), shape=shape, order=order)
