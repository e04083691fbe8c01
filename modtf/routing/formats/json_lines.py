"""JSON lines: one object a line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from modtf.routing.formats.source import Source

ENDING = ".jsonl"
Record = dict[str, Any]


def records(file: Path) -> Iterator[tuple[str, Record]]:
    """Yield where each object stands, and the object; `ValueError` on a line that is not a JSON object."""
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            place = f"line {number} of {file.name}"
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except RecursionError as error:
                raise ValueError(f"{place} is nested too deeply") from error
            except ValueError as error:
                raise ValueError(f"{place} is not valid JSON: {error}") from error
            if not isinstance(record, dict):
                raise ValueError(f"{place} is a {type(record).__name__}; expected an object")
            yield place, record


def first_record(source: Source) -> Record:
    """Return the first object of the first .jsonl file; empty if there is none."""
    for file in source.files(ENDING):
        for _, record in records(file):
            return record
    return {}


def check_fields(place: str, record: Record, *fields: str) -> None:
    """Raise `ValueError` unless the record has these fields."""
    if missing := [name for name in fields if name not in record]:
        raise ValueError(f"{place} lacks {', '.join(missing)}")
