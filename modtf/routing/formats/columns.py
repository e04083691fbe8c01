"""The columns of Parquet files, CSV files and JSON rows, as arrays with an entry for each row."""

import csv
import gzip
import io
import json
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.joined import as_array
from modtf.routing.formats.registry import Readers
from modtf.routing.formats.source import PACKED, opened
from modtf.routing.names import check_one_kind

BYTE_ORDER_MARK = "utf-8-sig"  # spreadsheets write one before the first column's name
DROPPED = "Write -1 for a dropped choice, and leave out rows that are not tokens."


def row_columns(place: str, rows: Sequence[dict[str, Any]]) -> Readers:
    """Return the columns of rows such as `{"experts": [3, 5], "label": "code"}`."""
    names = dict.fromkeys(chain.from_iterable(rows))
    return {name: partial(_of_rows, place, rows, name) for name in names}


def _of_rows(place: str, rows: Sequence[dict[str, Any]], name: str) -> NDArray[Any]:
    return _as_array(place, name, [row.get(name) for row in rows])


def csv_columns(path: Path) -> Readers:
    """Return the columns of a CSV file. Lines that begin with # are comments; `[3, 5]` is a list."""
    with opened(path, BYTE_ORDER_MARK) as lines:
        kept = (line for line in lines if line.strip() and not line.startswith("#"))
        header, *rows = csv.reader(kept, skipinitialspace=True)
    names = [name.strip() for name in header]
    _check_distinct(path.name, names)
    for number, row in enumerate(rows, start=1):
        if len(row) != len(names):
            raise ValueError(f"row {number} of {path.name} has {len(row)} values; expected {len(names)}")
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    return {name: partial(_of_text, path.name, name, some) for name, some in zip(names, columns, strict=True)}


def _of_text(place: str, name: str, values: Sequence[str]) -> NDArray[Any]:
    """Return texts as integers or else as numbers, if all of them are, or as lists."""
    if any(value.startswith("[") for value in values):
        return _as_array(place, name, [json.loads(value) for value in values])
    if not any("_" in value for value in values):  # Python reads 1_000 as a number
        for kind in (np.int64, np.float64):
            try:
                return np.array(values).astype(kind)
            except (ValueError, OverflowError):
                continue
    return _as_array(place, name, [value.strip() or None for value in values])


def _as_array(place: str, name: str, values: list[Any]) -> NDArray[Any]:
    """Return the values of a column; `ValueError` if one is missing or of another kind or length."""
    what = f"the column {name!r} of {place}"
    for number, value in enumerate(values, start=1):
        if value is None:
            raise ValueError(f"row {number} of {place} lacks {name}; expected a value everywhere. {DROPPED}")
        if isinstance(value, list) and len(value) != len(values[0] if isinstance(values[0], list) else []):
            raise ValueError(
                f"row {number} of {place} has a list of length {len(value)} as {name}, unlike the first; "
                f"expected lists of the same length. {DROPPED}"
            )
    check_one_kind(values, what)
    array = as_array(values)
    if array.dtype.kind not in "biufU":
        raise ValueError(f"{what} holds {values[0]!r}; expected numbers, texts or lists of numbers")
    return array


def _check_distinct(place: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise ValueError(
            f"the columns of {place} have the names {', '.join(names)}; expected different names"
        )


def parquet_columns(path: Path) -> Readers:
    """Return the columns of a Parquet file, each of which is read on first access."""
    file = parquet_file(path)
    names = file.schema_arrow.names
    _check_distinct(path.name, names)
    return {name: partial(parquet_column, file, name) for name in names}


def parquet_file(path: Path) -> Any:
    """Open a Parquet file, which may be compressed as a whole."""
    from pyarrow import parquet

    return parquet.ParquetFile(
        io.BytesIO(gzip.decompress(path.read_bytes())) if path.suffix == PACKED else path
    )


def parquet_column(file: Any, name: str) -> NDArray[Any]:
    """Return one column as an array."""
    values = file.read(columns=[name])[name]
    if len(values) == 0:
        raise ValueError("the file has no rows")
    return rectangular(values)


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
