"""Tables with named columns: Parquet, CSV and JSON lines, also compressed (.gz), or a list of rows in memory.

A row is a token, whose column `experts` holds a list `[k]` or `[layers, k]`. If there is a column `layer`,
a row is one choice of a `token` in a layer, or all its choices as a list. With a column `count` it is the
number of choices of an expert in a layer.
"""

import csv
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.joined import NONE, as_array, in_memory, integers, warn
from modtf.routing.formats.registry import FORMATS, ROUTED, Format, Readers
from modtf.routing.formats.source import PACKED, Source, by_number, opened
from modtf.routing.names import check_one_kind

BYTE_ORDER_MARK = "utf-8-sig"  # spreadsheets write one before the first column's name
DROPPED = "Write -1 for a dropped choice, and leave out rows that are not tokens."
PARQUET, CSV = ".parquet", ".csv"
#: other usual names of columns
ALIASES = {"expert": "experts", "weight": "weights", "count": "counts", "document": "documents",
           "label": "labels", "token_id": "tokens"}  # fmt: skip
OF_TOKENS = ("documents", "labels", "tokens", "predicted_tokens", "positions", "spans")
OF_MODEL = ("num_experts", "top_k")  # the same in all rows
NUMBERS = (*OF_MODEL, *ROUTED, "weights", "layer", "tokens", "predicted_tokens", "positions")
Ints = NDArray[np.int64]


def _of_rows(place: str, rows: Sequence[dict[str, Any]], name: str) -> NDArray[Any]:
    return _as_array(place, name, [row.get(name) for row in rows])


def csv_columns(path: Path) -> Readers:
    """Return the columns of a CSV file. Lines above the header that begin with # are comments.

    If the names have a space after their commas, so have the values, which begin behind it.
    """
    with opened(path, BYTE_ORDER_MARK) as lines:
        header = next((line for line in lines if line.strip() and not line.startswith("#")), "")
        kept = csv.reader(chain([header], lines), skipinitialspace=", " in header)
        names, *rows = [row for row in kept if len(row) > 1 or "".join(row).strip()] or [[]]
    if not rows:
        raise ValueError("the file has no rows")
    names = [name.strip() for name in names]
    _check_distinct(path.name, names)
    for number, row in enumerate(rows, start=1):
        if len(row) != len(names):
            raise ValueError(f"row {number} of {path.name} has {len(row)} values; expected {len(names)}")
    columns = zip(names, zip(*rows, strict=True), strict=True)
    return {name: partial(_of_text, path.name, name, some) for name, some in columns}


def _of_text(place: str, name: str, values: Sequence[str]) -> NDArray[Any]:
    """Return texts as lists such as `[3, 5]`, as integers or else as numbers, if all of them are.

    Texts of one integer that differ, such as 7 and 07, stay texts where they may be names."""
    if all(value.strip().startswith("[") and value.strip().endswith("]") for value in values):
        with suppress(json.JSONDecodeError):
            return _as_array(place, name, [json.loads(value) for value in values])
    if not any("_" in value for value in values):  # Python reads 1_000 as a number
        for kind in (np.int64, np.float64):
            with suppress(ValueError, OverflowError):
                numbers, texts = np.array(values).astype(kind), [value.strip() for value in values]
                are_names = kind is np.int64 and ALIASES.get(name, name) not in NUMBERS
                return np.array(texts) if are_names and len({*texts}) > len(np.unique(numbers)) else numbers
    return _as_array(place, name, [value or None for value in values])


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

    is_packed = path.suffix == PACKED
    return parquet.ParquetFile(io.BytesIO(gzip.decompress(path.read_bytes())) if is_packed else path)


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
    lists = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    while any(is_kind(values.type) for is_kind in lists):
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


def _refuse_nulls(values: Any, shape: list[int]) -> None:
    if values.null_count:
        place = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(f"{_row(place, shape)} holds a null; expected a value everywhere. {DROPPED}")


def _row(place: int, shape: list[int]) -> str:
    return f"row {place // int(np.prod(shape[1:], dtype=np.int64))}"


@FORMATS.register("table")
class Table(Format):
    """One file, or a folder of files with the same columns. Each file is a document, unless a column says."""

    rank = 2
    lists_only_chosen = True

    @classmethod
    def detect(cls, source: Source) -> bool:
        if source.columns or source.files(PARQUET) or source.files(CSV):
            return True
        is_row = any(map(source.first_has, (*ROUTED, *ALIASES)))
        if is_row and len(list(islice(source.contents(), 2))) > 1:
            return True
        return any(source.first_has("layer", name) for name in ("token", "count"))

    @classmethod
    def read(cls, source: Source) -> Readers:
        columns = _joined([(name, _renamed(part, source)) for name, part in _files(source)])
        columns |= {name: partial(_number, name, columns[name]) for name in OF_MODEL if name in columns}
        if "layer" not in columns or "experts" not in columns or _is_by_token(columns):
            arrays: Readers = {name: partial(_by_token, name, read) for name, read in columns.items()}
            if "counts" in columns:  # of all experts
                arrays.setdefault("num_experts", lambda: np.array(columns["counts"]().shape[-1]))
            return arrays
        return _counts(columns) if "counts" in columns else _by_layer(columns)


def _files(source: Source) -> Iterator[tuple[str, Readers]]:
    """Yield the name of each file and its columns."""
    for ending, read in ((PARQUET, parquet_columns), (CSV, csv_columns)):
        if paths := source.files(ending):
            yield from ((path.name, read(path)) for path in paths)
            return
    for place, pairs in groupby(source.contents(), key=lambda pair: pair[0].rpartition(" of ")[2]):
        rows = [row for _, row in pairs]
        if wrong := [row for row in rows if not isinstance(row, dict)]:
            raise ValueError(f"{place} holds a {type(wrong[0]).__name__}; expected rows with named values")
        if len(rows) == 1 and all(np.ndim(value) for value in rows[0].values()):
            yield place, in_memory({name: as_array(values) for name, values in rows[0].items()})
        else:  # rows such as {"experts": [3, 5], "label": "code"}
            names = dict.fromkeys(chain.from_iterable(rows))
            yield place, {name: partial(_of_rows, place, rows, name) for name in names}


def _renamed(columns: Readers, source: Source) -> Readers:
    """Return columns by their usual names; `ValueError` if a column that is asked for is missing."""
    if missing := [name for name in source.columns.values() if name not in columns]:
        raise ValueError(f"it has the columns {', '.join(columns)}; expected a column {missing[0]!r}")
    asked = {column: ALIASES.get(usual, usual) for usual, column in source.columns.items()}
    rest = {name: ALIASES.get(name, name) for name in columns if name not in asked}
    names = asked | {name: usual for name, usual in rest.items() if usual not in asked.values()}
    if len(set(names.values())) < len(names):
        raise ValueError(
            f"two of its columns {', '.join(columns)} mean the same; name one of them in columns"
        )
    return {usual: columns[column] for column, usual in names.items()}


def _joined(parts: Sequence[tuple[str, Readers]]) -> Readers:
    """Return the columns of all files, one after the other."""
    (first, names), *others = parts
    for place, columns in others:
        if set(columns) != set(names):
            raise ValueError(
                f"{first} has the columns {', '.join(names)}, but {place} has {', '.join(columns)}; expected "
                "the same"
            )
    if not others:
        return names
    joined: Readers = {name: partial(_stacked, [part[name] for _, part in parts]) for name in names}
    if "documents" in names:
        known = [set(part["documents"]().tolist()) for _, part in parts]
        if sum(map(len, known)) > len(set.union(*known)):
            raise ValueError("two of its files name the same document; expected each document in one file")
    else:
        sizes = [len(part[next(iter(part))]()) for _, part in parts]
        joined["documents"] = partial(np.repeat, np.arange(len(parts)), sizes)
    return joined


def _stacked(readers: Sequence[Any]) -> NDArray[Any]:
    return np.concatenate([read() for read in readers])


def _number(name: str, read: Any) -> NDArray[Any]:
    values = np.unique(read())
    if len(values) != 1:
        raise ValueError(f"{name} is {values[:2].tolist()}; expected one number. Read each model separately")
    return values


def _is_by_token(columns: Readers) -> bool:
    """Return whether each row is a token although it names a layer, the only one."""
    is_list = columns["experts"]().ndim > 1
    return is_list and "token" not in columns and len(np.unique(columns["layer"]())) == 1


def _by_token(name: str, read: Any) -> NDArray[Any]:
    """Return the array of a column of tokens."""
    values: NDArray[Any] = read()
    if values.ndim < 3 or name == "counts":
        return values[:, np.newaxis] if values.ndim == 1 and name in ("experts", "weights") else values
    if len(values) < values.shape[1]:
        raise ValueError(
            f"its {len(values)} rows hold lists {values.shape[1:]} as {name}; expected a row for each token, "
            "with [layers, k]"
        )
    return np.moveaxis(values, 1, 0)  # [layers, tokens, k]


def _by_layer(columns: Readers) -> Readers:
    """Return the arrays of a table with a row for each token and layer, or for each of their choices."""
    if "token" not in columns:
        raise ValueError(
            f"it has the columns {', '.join(columns)}: a row for each layer, but no column `token` "
            "that numbers the tokens, and none `count`. Name the columns, for example "
            "--columns=token=step,document=text (columns={'token': 'step', 'document': 'text'})"
        )
    layers, layer = _layers(columns)
    token, experts = _whole(columns, "token"), _whole(columns, "experts")
    document = _in_order(columns["documents"]()) if "documents" in columns else np.zeros(len(token), np.int64)
    slot = _whole(columns, "slot") if "slot" in columns else np.arange(len(token))
    order = np.lexsort((slot, layer, token, document))
    keys = np.stack([document, token, layer])
    is_first = np.append(True, (np.diff(keys[:2, order]) != 0).any(axis=0))
    place, first = np.cumsum(is_first) - 1, order[is_first]
    sizes = np.bincount(place * len(layers) + layer[order], minlength=len(first) * len(layers))
    wrong = (sizes != sizes[0]) | (experts.ndim == 2 and sizes[0] > 1)
    if wrong.any():
        cell = int(np.argmax(wrong))
        row, of_layer = first[cell // len(layers)], layers[cell % len(layers)]
        of_document = f" of document {columns['documents']()[row]}" if "documents" in columns else ""
        raise ValueError(
            f"token {token[row]}{of_document} has {sizes[cell]} rows in layer {of_layer}, but the first has "
            f"{sizes[0]}; expected the same number for all, and one if rows hold lists. {DROPPED}"
        )
    _check_slots(keys, slot[order].reshape(-1, sizes[0]), "slot" in columns)
    if ((np.diff(token[first]) != 1) & (np.diff(document[first]) == 0)).any():
        warn("The numbers of the tokens of a document have gaps. The tokens are read as neighbours.")
    arrays = {name: columns[name]() for name in OF_MODEL if name in columns}
    arrays["layer_names"] = np.array(layers)
    arrays |= {"experts": experts} | ({"weights": columns["weights"]()} if "weights" in columns else {})
    for name in {"experts", "weights"} & set(arrays):
        arrays[name] = np.moveaxis(arrays[name][order].reshape(len(first), len(layers), -1), 1, 0)
    for name in set(columns) - {*arrays, "token", "layer", "slot"}:
        values = columns[name]()
        if (values[order] == values[first][place]).all():
            arrays[name] = values[first]
        elif name in OF_TOKENS:
            raise ValueError(f"the rows of a token differ in {name!r}; expected one value for each token")
    return in_memory(arrays)


def _check_slots(keys: Ints, slots: Ints, have_slots: bool) -> None:
    """Raise `ValueError` if slots repeat; warn if, without slots, the rows of a token are not together."""
    if have_slots and ((slots != slots[0]).any() or len(set(slots[0])) < slots.shape[1]):
        raise ValueError(
            "the slots of a token and layer repeat or differ from those of others; expected the same slots, "
            "each once. If the file holds several texts, name the column of documents"
        )
    if not have_slots and np.count_nonzero(np.diff(keys).any(axis=0)) >= len(slots):
        warn(
            "The rows of a token and layer are not contiguous. They are read as choices of one token. If the "
            "file holds several texts, name the column of documents, or write a file for each."
        )


def _counts(columns: Readers) -> Readers:
    """Return counts `[documents, layers, experts]` of a table with a row for each expert of a layer."""
    layers, layer = _layers(columns)
    experts, counts = _whole(columns, "experts"), columns["counts"]()
    document = _in_order(columns["documents"]()) if "documents" in columns else np.zeros(len(layer), np.int64)
    if not experts.shape == counts.shape == layer.shape:
        raise ValueError(
            f"experts and counts have shapes {experts.shape} and {counts.shape}; expected numbers"
        )
    if none := np.count_nonzero(experts == NONE):
        warn(f"{none} rows have the expert -1, which stands for a shared expert or none. They are left out.")
    keys = np.stack([document, layer, experts])[:, experts != NONE]
    _, number = np.unique(keys, axis=1, return_counts=True)
    table = np.zeros((*(keys.max(axis=1, initial=-1) + 1),))
    table[tuple(keys)] = counts[experts != NONE]
    if (number > 1).any() or len(np.unique(keys[:2], axis=1).T) < table.shape[0] * len(layers):
        raise ValueError(
            "it counts an expert of a layer twice, or a document lacks a layer; expected each once"
        )
    found = in_memory({"counts": table, "layer_names": np.array(layers)})
    first = np.unique(document, return_index=True)[1]
    if "labels" in columns and (labels := columns["labels"]()).shape == document.shape:
        if (labels != labels[first][document]).any():
            raise ValueError("the rows of a document differ in its label; expected one label for each")
        found |= in_memory({"labels": labels[first]})
    return found | {name: columns[name] for name in OF_MODEL if name in columns}


def _whole(columns: Readers, name: str) -> Ints:
    """Return a column of integers, also if they were written with a fraction of 0."""
    values = columns[name]()
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values == np.floor(values)).all():
        values = values.astype(np.int64)
    if name == "experts":
        return integers(values, "it")
    if values.dtype.kind not in "iu" or values.ndim > 1:
        raise ValueError(f"the column {name} holds {values.ravel()[:1].tolist()}; expected integers")
    return values.astype(np.int64)


def _layers(columns: Readers) -> tuple[list[str], Ints]:
    """Return the names of the layers in the order of their numbers, and the place of each row's layer."""
    names, numbers = np.unique(columns["layer"]().astype(str), return_inverse=True)
    order = sorted(range(len(names)), key=lambda number: by_number(str(names[number])))
    return names[order].tolist(), np.argsort(order)[numbers]


def _in_order(values: NDArray[Any]) -> Ints:
    """Return the number of each value, in the order in which values come first."""
    import pandas as pd  # slow to import

    return pd.factorize(values, use_na_sentinel=False)[0]
