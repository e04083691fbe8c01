"""Arrays by name: of an .npz file, of a folder of .npy files, of an .npy file; in place, without pickles."""

import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

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
