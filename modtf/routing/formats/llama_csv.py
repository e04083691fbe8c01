"""Tables of llama.cpp's expert tracers: .csv files with the columns `layer` and `expert`.

With a column `token`, a row is one choice of a token; an optional column `weight` holds the choice's weight.
With a column `count`, or neither, rows are counts, and each file is a document. Other columns are ignored.
llama.cpp has no tracer of its own; forks write `layer,expert,count` and `token,layer,expert`.
"""

import csv
from pathlib import Path

import numpy as np

from modtf.routing.formats.counts import stacked
from modtf.routing.formats.joined import NONE, Document, joined, warn
from modtf.routing.formats.registry import FORMATS, Format, Found
from modtf.routing.formats.source import Source

ENDING = ".csv"
ENCODING = "utf-8-sig"  # spreadsheets write a byte order mark before the first column's name


@FORMATS.register("llama_csv")
class LlamaCsv(Format):
    """One .csv file, or a folder of them. Each file is a document."""

    lists_only_chosen = True

    @classmethod
    def detect(cls, source: Source) -> bool:
        files = source.files(ENDING)
        return bool(files) and {"layer", "expert"} <= set(_header(files[0]))

    @classmethod
    def read(cls, source: Source) -> Found:
        files = source.files(ENDING)
        headers = {_header(file) for file in files}
        if len(headers) > 1:
            raise ValueError(
                f"its files have the columns {' and '.join(map(str, sorted(headers)))}; expected the same "
                "columns"
            )
        (header,) = headers
        if "token" in header:
            return joined([_document(file, "weight" in header) for file in files])
        return stacked([(file.stem, _counts(file)) for file in files])


def _header(file: Path) -> tuple[str, ...]:
    with file.open(encoding=ENCODING, newline="") as lines:
        rows = csv.reader(line for line in lines if not line.startswith("#"))
        return tuple(name.strip() for name in next(rows, []))


def _rows(file: Path, *columns: str) -> list[list[float]]:
    """Return these columns as numbers, without lines that begin with #."""
    with file.open(encoding=ENCODING, newline="") as lines:
        kept = [line for line in lines if line.strip() and not line.startswith("#")]
    reader = csv.DictReader(kept, skipinitialspace=True)
    rows = []
    for number, row in enumerate(reader, start=1):
        try:
            rows.append([float(row[name]) for name in columns])
        except (TypeError, ValueError) as error:
            raise ValueError(f"row {number} of {file.name} is {dict(row)}; expected numbers") from error
    return rows


def _counts(file: Path) -> dict[int, dict[int, int]]:
    with_count = "count" in _header(file)
    counts: dict[int, dict[int, int]] = {}
    shared = 0
    for row in _rows(file, "layer", "expert", *["count"] * with_count):
        layer, expert, count = int(row[0]), int(row[1]), row[2] if with_count else 1.0
        if row[:2] != [layer, expert]:
            raise ValueError(f"{file.name} has layer {row[0]:g} and expert {row[1]:g}; expected integers")
        if count < 0 or count != int(count):
            raise ValueError(
                f"{file.name} counts {count:g} for expert {expert}; expected an integer of at least 0"
            )
        if expert < NONE:
            raise ValueError(f"{file.name} has expert {expert}; expected a number from 0 (or -1: none)")
        if expert == NONE:
            shared += 1
            continue
        of_layer = counts.setdefault(layer, {})
        if with_count and expert in of_layer:
            raise ValueError(f"{file.name} counts expert {expert} of layer {layer} twice")
        of_layer[expert] = of_layer.get(expert, 0) + int(count)
    if shared:
        warn(
            f"{shared} rows of {file.name} have the expert -1, which stands for a shared expert or none. "
            "They are left out."
        )
    return counts


def _document(file: Path, with_weight: bool) -> Document:
    rows = np.array(_rows(file, "token", "layer", "expert", *["weight"] * with_weight))
    if not len(rows):
        raise ValueError(f"{file.name} has no rows")
    choices = rows[:, :3].astype(np.int64)
    if (choices != rows[:, :3]).any() or choices.min() < 0:
        raise ValueError(
            f"{file.name} holds invalid tokens, layers or experts; expected integers of at least 0"
        )
    order = np.lexsort((np.arange(len(rows)), choices[:, 1], choices[:, 0]))
    cells, sizes = np.unique(choices[:, :2], axis=0, return_counts=True)
    tokens, layers = np.unique(cells[:, 0]), np.unique(cells[:, 1])
    if len(set(sizes.tolist())) > 1 or len(cells) != len(tokens) * len(layers):
        raise ValueError(
            f"{file.name} has between {sizes.min()} and {sizes.max()} experts for a token and layer, and "
            f"{len(cells)} of {len(tokens)} x {len(layers)} tokens and layers; expected the same number for "
            "each"
        )
    if np.count_nonzero(np.diff(choices[:, :2], axis=0).any(axis=1)) >= len(cells):
        warn(
            f"The rows of a token and layer are not contiguous in {file.name}. They are read as choices of "
            "one token. If the file holds several texts, write a file for each."
        )
    shape = (len(tokens), len(layers), int(sizes[0]))
    weights = rows[order, 3].reshape(shape) if with_weight else None
    experts = choices[order, 2].reshape(shape).astype(np.int32)
    return Document(file.name, experts, weights, layers=[str(layer) for layer in layers])
