"""Importance matrices of llama.cpp (`llama-imatrix`), GGUF files: how often each expert was chosen.

The tensor `blk.N.ffn_down_exps.weight.counts` holds a count for each expert of layer N, summed over the
chunks of the text. Each file is a document. Source: `tools/imatrix/imatrix.cpp` of
github.com/ggml-org/llama.cpp and `docs/gguf.md` of github.com/ggml-org/ggml.
"""

import re
import struct
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.joined import in_memory
from modtf.routing.formats.registry import FORMATS, Format, Readers
from modtf.routing.formats.source import Source

MAGIC, VERSIONS = b"GGUF", (2, 3)
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY, FLOAT32 = 8, 9, 0
COUNTS = re.compile(r"blk\.(\d+)\.ffn_(?:down|gate|up|gate_up)_exps\.weight\.counts")
MOST = 2**20  # limit on the entries of a header, so that a damaged file does not fill the memory


@FORMATS.register("imatrix")
class Imatrix(Format):
    """One .gguf file, or a folder of them. Each file is a document."""

    ending = ".gguf"

    @classmethod
    def read(cls, source: Source) -> Readers:
        documents = {file.name: _counts(file) for file in source.files(cls.ending)}
        first, *others = documents
        sizes = {name: {n: len(one) for n, one in layers.items()} for name, layers in documents.items()}
        for name in others:
            if sizes[name] != sizes[first]:
                raise ValueError(f"{name} and {first} have different layers or experts; expected the same")
        if len(set(sizes[first].values())) > 1:
            raise ValueError("its layers have different numbers of experts; expected the same number")
        layers = sorted(sizes[first])
        counts = np.array([[one[layer] for layer in layers] for one in documents.values()])
        return in_memory({"counts": counts, "layer_names": np.array(layers, str)})


def _counts(file: Path) -> dict[int, NDArray[Any]]:
    """Return the counts of the experts of each layer; `ValueError` if the tensors of a layer disagree."""
    with file.open("rb") as stream:
        fields, tensors = _header(stream)
        if fields.get("general.type") != "imatrix":
            raise ValueError(f"{file.name} is of type {fields.get('general.type')!r}; expected an imatrix")
        start = -(-stream.tell() // (alignment := int(fields.get("general.alignment", 32)))) * alignment
        counts: dict[int, NDArray[Any]] = {}
        for name, (shape, kind, offset) in tensors.items():
            if (match := COUNTS.fullmatch(name)) is None:
                continue
            size = int(np.prod(shape))
            if kind != FLOAT32 or size < 2:
                raise ValueError(
                    f"{name} of {file.name} has shape {shape}; expected one float32 for each expert"
                )
            stream.seek(start + offset)
            values = np.frombuffer(stream.read(4 * size), "<f4")
            if len(values) < size:
                raise ValueError(f"{file.name} ends within {name}")
            layer = int(match[1])
            if layer in counts and not np.array_equal(counts[layer], values):
                raise ValueError(f"the tensors of layer {layer} of {file.name} have different counts")
            counts[layer] = values
    if not counts:
        raise ValueError(
            f"{file.name} has no counts of experts; expected tensors such as "
            "blk.0.ffn_down_exps.weight.counts"
        )
    return counts


def _header(stream: IO[bytes]) -> tuple[dict[str, Any], dict[str, tuple[tuple[int, ...], int, int]]]:
    """Return the fields of a file, and the shape, type and offset of every tensor."""
    magic, version = stream.read(4), _number(stream, "I")
    if magic != MAGIC or version not in VERSIONS:
        raise ValueError(f"it begins with {magic!r} and version {version}; expected GGUF of version 2 or 3")
    num_tensors, num_fields = _number(stream, "Q"), _number(stream, "Q")
    if max(num_tensors, num_fields) > MOST:
        raise ValueError(f"its header is invalid: it names {num_tensors} tensors and {num_fields} fields")
    fields = {_text(stream): _value(stream, _number(stream, "I")) for _ in range(num_fields)}
    tensors = {}
    for _ in range(num_tensors):
        name = _text(stream)
        shape = tuple(_number(stream, "Q") for _ in range(_number(stream, "I")))
        tensors[name] = shape, _number(stream, "I"), _number(stream, "Q")
    return fields, tensors


def _number(stream: IO[bytes], code: str) -> Any:
    size = struct.calcsize(code)
    data = stream.read(size)
    if len(data) < size:
        raise ValueError("its header ends early")
    return struct.unpack(f"<{code}", data)[0]


def _text(stream: IO[bytes]) -> str:
    length = _number(stream, "Q")
    if length > MOST:
        raise ValueError(f"its header holds a text of {length} bytes")
    return stream.read(length).decode()


def _value(stream: IO[bytes], kind: int) -> Any:
    if kind == STRING:
        return _text(stream)
    if kind == ARRAY:
        inner, length = _number(stream, "I"), _number(stream, "Q")
        if length > MOST:
            raise ValueError(f"its header holds an array of {length} values")
        return [_value(stream, inner) for _ in range(length)]
    if kind not in NUMBERS:
        raise ValueError(f"its header holds a value of type {kind}")
    return _number(stream, NUMBERS[kind])
