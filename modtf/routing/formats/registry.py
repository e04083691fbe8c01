"""The registry of formats, whose files are imported on first use, and the arrays of any file."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from modtf.base.registry import Registry
from modtf.routing.formats.source import Source, explained

ROUTED = ("activations", "experts", "counts")  # usual names of arrays
Readers = dict[str, Callable[[], NDArray[Any]]]  # name of an array -> the function that reads it


class Format:
    """A format of routing files. Register a subclass by `@FORMATS.register(name)`.

    Attributes:
        rank: the place in the order of detection: 0 for files of arrays, 1 for layouts, 2 for tables, 3 for
            what is left. Layouts exclude each other.
        ending: the ending of file names that identifies the format without a look at the content.
        fields: the fields of the first object that identify the format.
        lists_only_chosen: whether counts lack the experts that no token chose.
    """

    rank = 1
    ending = ""
    fields: tuple[str, ...] = ()
    lists_only_chosen = False

    @classmethod
    def detect(cls, source: Source) -> bool:
        """Return whether the source is of this format."""
        has_ending = bool(cls.ending and source.files(cls.ending))
        return has_ending or bool(cls.fields and source.first_has(*cls.fields))

    @classmethod
    def read(cls, source: Source) -> Readers:
        """Return a reader for each array; `ValueError` or a read error if the source is damaged."""
        raise NotImplementedError


#: format -> the file of this folder that registers it, found without an import
MODULES = {
    name: f"modtf.routing.formats.{path.stem}"
    for path in Path(__file__).parent.glob("*.py")
    for name in re.findall(r'^@FORMATS.register\("(\w+)"\)', path.read_text(encoding="utf-8"), re.MULTILINE)
}
FORMATS: Registry[type[Format]] = Registry("format", dict(sorted(MODULES.items())))


class Arrays(Mapping[str, NDArray[Any]]):
    """The arrays of a file, a folder or an object, by name. Each array is read on first access.

    Arrays from .npy files, .safetensors files and `np.savez` are mapped into memory: only the part that is
    used is read. An array from `np.savez_compressed` is loaded into memory as a whole.

    Args:
        thing: a path, or an object in memory.
        format: the name of a registered format; None: the first that recognises the content.
        **options: `top_k`, `num_layers` and `columns` of `Source`.

    Raises:
        ValueError: if no format recognises the content, or the content is damaged.
    """

    def __init__(self, thing: Any, format: str | None = None, **options: Any):
        self.source = Source(thing, **options)
        self.format = format if format is not None else _detected(self.source)
        reader = FORMATS[self.format]
        if self.source.columns and self.format != "table":
            raise ValueError(
                f"{self.source} is read as {self.format}, but columns name those of a table. Leave them "
                "out, or give the format table."
            )
        with explained(f"{self.source} cannot be read as {self.format}"):
            self._read: Readers = reader.read(self.source)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return the array, read-only; `ValueError` if reading it would run code from the file."""
        read = self._read[name]
        with explained(f"The array {name!r} of {self.source} cannot be read"):
            return read()

    def named(self, name: str) -> NDArray[Any]:
        """Return the array of that name, or of that .npy file."""
        if name in self:
            return self[name]
        if name.endswith(".npy"):
            return Arrays(name)["activations"]
        raise ValueError(
            f"The array {name!r} does not exist in {self.source}, which has {', '.join(self) or 'none'}. "
            "Give the right name, or the path of an .npy file."
        )

    def optional(self, usual: str, name: str | None) -> NDArray[Any] | None:
        """Return the array `name`, or without a name the array `usual`, or None if the file lacks it."""
        return self.named(name) if name is not None else self.get(usual)

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)


def _detected(source: Source) -> str:
    """Return the first format that recognises the content, by rank."""
    for name, reader in sorted(FORMATS.items(), key=lambda item: item[1].rank):
        with explained(f"{source} cannot be read"):
            if reader.detect(source):
                return name
    if source.files(".npy"):
        return "npy"
    raise ValueError(
        f"{source} has an unknown format; expected one of {', '.join(FORMATS)}. Write arrays with "
        "numpy.savez('x.npz', activations=..., labels=...), or each with numpy.save into one folder."
    )
