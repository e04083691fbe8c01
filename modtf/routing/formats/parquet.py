"""Parquet files with a row for each token: numbers, texts, and lists of numbers."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.registry import FORMATS, Format, Found
from modtf.routing.formats.source import Source

DROPPED = "Write -1 for a dropped choice, and leave out rows that are not tokens."


@FORMATS.register("parquet")
class Parquet(Format):
    """One .parquet file, whose rows hold numbers, texts, or lists `[k]` or `[layers, k]`."""

    ending = ".parquet"

    @classmethod
    def read(cls, source: Source) -> Found:
        from pyarrow import parquet

        path = source.one_file(cls.ending)
        names = parquet.read_schema(path).names
        if len(set(names)) < len(names):
            raise ValueError(f"its columns have the names {', '.join(names)}; expected different names")
        return {name: partial(column, path, name) for name in names}


def column(path: Path, name: str) -> NDArray[Any]:
    """Return one column as an array."""
    from pyarrow import parquet

    values = parquet.read_table(path, columns=[name])[name]
    if len(values) == 0:
        raise ValueError("the file has no rows")
    array = rectangular(values)
    return np.moveaxis(array, 1, 0) if array.ndim == 3 else array  # [tokens, layers, k] in the file


def rectangular(column: Any) -> NDArray[Any]:
    """Return a column of numbers, texts, or lists of equal length as an array."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = pa.chunked_array(column).combine_chunks()
    shape = [len(values)]
    while _is_list(values.type):
        _refuse_nulls(values, shape)
        lengths = pc.list_value_length(values).to_numpy(zero_copy_only=False)
        if (other := lengths != lengths[0]).any():
            place = int(np.argmax(other))
            raise ValueError(
                f"{_row(place, shape)} has a list of length {lengths[place]}, but the first has length "
                f"{lengths[0]}; expected lists of the same length. {DROPPED}"
            )
        if lengths[0] == 0:
            raise ValueError(f"its lists are empty. {DROPPED}")
        shape.append(int(lengths[0]))
        values = values.flatten()
    _refuse_nulls(values, shape)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kinds = pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string
    if not any(is_kind(values.type) for is_kind in (*kinds, pa.types.is_large_string)):
        raise ValueError(f"its type is {column.type}; expected numbers, texts or lists of numbers")
    inner = values.to_numpy(zero_copy_only=False)
    return (inner.astype(str) if inner.dtype.kind == "O" else inner).reshape(shape)


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return any(
        is_kind(kind) for is_kind in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    )


def _refuse_nulls(values: Any, shape: list[int]) -> None:
    if values.null_count:
        place = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(f"{_row(place, shape)} holds a null; expected a value everywhere. {DROPPED}")


def _row(place: int, shape: list[int]) -> str:
    return f"row {place // int(np.prod(shape[1:], dtype=np.int64))}"
