"""The registry of formats. Each format is one file in this folder, which is imported on first use."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from modtf.base.registry import Registry
from modtf.routing.formats.source import Source

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
        return bool(cls.ending and source.files(cls.ending)) or bool(
            cls.fields and source.first_has(*cls.fields)
        )

    @classmethod
    def read(cls, source: Source) -> Readers:
        """Return a reader for each array; `ValueError` or a read error if the source is damaged."""
        raise NotImplementedError


#: the files of this folder that register a format, found without an import
MODULES = {
    path.stem: f"modtf.routing.formats.{path.stem}"
    for path in sorted(Path(__file__).parent.glob("*.py"))
    if f'@FORMATS.register("{path.stem}")' in path.read_text(encoding="utf-8")
}
FORMATS: Registry[type[Format]] = Registry("format", MODULES)
