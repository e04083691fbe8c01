"""Batches of arrays -> serialised `tf.train.Example` records, without Python per number.

Every example of a split has the same shapes, so every record has the same bytes except for its numbers:
the framing is computed once and the numbers are copied in for a whole batch at a time.
Format: https://protobuf.dev/programming-guides/encoding and TensorFlow's example.proto and feature.proto.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

FLOAT_LIST, INT64_LIST = 2, 3  # field numbers of the message Feature


@dataclass(frozen=True)
class Field:
    """One feature of an example, flattened: how many numbers of which kind."""

    name: str
    kind: int  # FLOAT_LIST or INT64_LIST
    count: int
    width: int = 4  # bytes per number

    @property
    def num_bytes(self) -> int:
        return self.count * self.width


def varint(number: int) -> bytes:
    """A non-negative integer, seven bits a byte, lowest first."""
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def message(field_number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    return varint(field_number << 3 | 2) + varint(len(content)) + content


def float_field(name: str, count: int) -> Field:
    """A feature of `count` float32 numbers."""
    return Field(name, FLOAT_LIST, count)


def integer_field(name: str, count: int, largest: int) -> Field:
    """A feature of `count` integers from 0 to `largest`, all written in as many bytes as `largest` needs."""
    return Field(name, INT64_LIST, count, width=len(varint(largest)))


class RecordLayout:
    """Where the numbers stand in a record of the given fields.

    Example:
        >>> layout = RecordLayout([float_field("x", 2)])
        >>> record, = layout.records({"x": np.zeros([1, 2], np.float32)})
        >>> layout.num_bytes == len(record)
        True
    """

    def __init__(self, fields: Sequence[Field]):
        self.fields = sorted(fields, key=lambda field: field.name)
        entries = []
        for field in self.fields:
            numbers = message(field.kind, message(1, bytes(field.num_bytes)))
            entries.append(message(1, message(1, field.name.encode()) + message(2, numbers)))
        record = message(1, b"".join(entries))
        self.template = np.frombuffer(record, np.uint8)
        self.num_bytes = len(record)
        # an entry ends with its numbers
        ends = self.num_bytes - sum(map(len, entries)) + np.cumsum([len(entry) for entry in entries])
        self.places = [
            slice(int(end) - f.num_bytes, int(end)) for f, end in zip(self.fields, ends, strict=True)
        ]

    def records(self, batch: Mapping[str, np.ndarray]) -> Iterator[bytes]:
        """Arrays `[B, ...]` by field name -> B serialised examples."""
        num_examples = len(next(iter(batch.values())))
        matrix = np.tile(self.template, (num_examples, 1))
        for field, place in zip(self.fields, self.places, strict=True):
            numbers = np.ascontiguousarray(batch[field.name]).reshape(num_examples, field.count)
            if field.kind == FLOAT_LIST:
                matrix[:, place] = numbers.astype("<f4", copy=False).view(np.uint8)
            else:
                shifted = numbers[..., None] >> (7 * np.arange(field.width))
                more = np.r_[np.full(field.width - 1, 128), 0]  # "another byte follows"
                matrix[:, place] = (shifted & 127 | more).astype(np.uint8).reshape(num_examples, -1)
        buffer = matrix.tobytes()
        for start in range(0, len(buffer), self.num_bytes):
            yield buffer[start : start + self.num_bytes]
