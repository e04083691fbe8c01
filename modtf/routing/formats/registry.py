"""The registry of formats. Each format is one file in this folder, which is imported on first use."""

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from modtf.registry import Registry
from modtf.routing.formats.source import Source

ROUTED = ("activations", "experts", "counts")  # usual names of arrays
Found = dict[str, Callable[[], NDArray[Any]]]  # name of an array -> the function that reads it


class Format:
    """A format of routing files. Register a subclass by `@FORMATS.register(name)`."""

    ending = ""  # a file name's ending that identifies this format without a look at the content
    lists_only_chosen = False  # whether counts lack the experts that no token chose

    @classmethod
    def detect(cls, source: Source) -> bool:
        """Return whether the source is of this format."""
        return bool(cls.ending and source.files(cls.ending))

    @classmethod
    def read(cls, source: Source) -> Found:
        """Return a reader for each array; `ValueError` or a read error if the source is damaged."""
        raise NotImplementedError


#: In the order in which `detect` is called: specific layouts come before files of arbitrary arrays.
FORMATS: Registry[type[Format]] = Registry(
    "format",
    {
        name: f"modtf.routing.formats.{name}"
        for name in (
            "npz", "npy", "safetensors", "flame", "parquet", "megatron_core", "vllm", "sglang",
            "sglang_recorder", "verl", "router_logits", "transformer_lens", "moe_atlas", "router_layers",
            "layer_counts", "llama_csv", "imatrix", "mapping",
        )
    },
)  # fmt: skip
