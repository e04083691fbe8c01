"""NumPy's .npz files. Arrays that `numpy.savez` wrote are mapped into memory."""

import struct
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.base.files import check_ratio
from modtf.routing.formats.npy import mapped
from modtf.routing.formats.registry import FORMATS, Format, Readers
from modtf.routing.formats.source import Source

LOCAL_HEADER = 30  # bytes of an entry's header in a zip file, before its name and its extra field


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
        file.seek(name_length + extra_length, 1)
        return mapped(path, file)
