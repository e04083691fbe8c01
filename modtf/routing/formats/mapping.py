"""Arrays in memory, with the same names as in files of arrays."""

from collections.abc import Mapping

from modtf.routing.formats.joined import as_array, in_memory
from modtf.routing.formats.registry import FORMATS, ROUTED, Format, Readers
from modtf.routing.formats.source import Source


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
