"""Checks of a model's file before Keras opens it."""

import io
import math
import zipfile
from pathlib import Path

import h5py

from modtf.base.files import check_ratio, check_size, regular_file

SUFFIX = ".keras"


def check_model_file(path: str | Path) -> None:
    """Raise `ValueError` unless a file is a Keras archive that reads no other file.

    HDF5 can store an array in other files, or link to another file. Every HDF5 file in the archive is
    searched, whatever its name.
    """
    if regular_file(path).suffix != SUFFIX or not zipfile.is_zipfile(path):  # Keras has readers of others
        raise ValueError(f"it is not an archive {SUFFIX}")
    with zipfile.ZipFile(path) as archive:
        check_ratio(path, archive.infolist())
        for entry in archive.infolist():
            content = archive.read(entry)
            try:
                file = h5py.File(io.BytesIO(content))
            except OSError:  # it is not HDF5, such as config.json
                if entry.filename.endswith(".h5"):
                    raise
                continue
            with file:
                _check_weights(f"{path}/{entry.filename}", file, len(content))


def _check_weights(path: str, file: h5py.File, packed: int) -> None:
    links: list[tuple[str, object]] = []
    file.visititems_links(lambda *link: links.append(link))  # an exception in here would be lost
    size = 0
    for name, link in links:
        if not isinstance(link, h5py.HardLink):
            raise ValueError(f"{name!r} of its weights is a link, which can lead to another file")
        item = file[name]
        if isinstance(item, h5py.Dataset):
            if item.external or item.is_virtual:
                raise ValueError(f"{name!r} of its weights is stored outside the file")
            size += math.prod(item.shape or ()) * item.dtype.itemsize
    check_size(path, packed, size)
