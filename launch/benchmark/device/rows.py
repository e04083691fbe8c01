"""The rows of one JSON file, which grows row by row and outlives whatever is killed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modtf.files import write_text
from modtf.launch.benchmark.device.grid import key_of

Row = dict[str, Any]


class Rows:
    """Rows of measurements, by what they measure.

    Args:
        path: of the file; None to keep them in memory alone.

    Raises:
        ValueError: where the file holds anything else.
    """

    def __init__(self, path: str | Path | None):
        self.path = None if path is None else Path(path)
        self._rows: dict[str, Row] = {}
        if self.path is not None and self.path.exists():
            self._rows = {key_of(row): row for row in read_rows(self.path)}

    def __iter__(self):
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def has(self, cell: Mapping[str, Any]) -> bool:
        """Whether a cell is measured; one whose measurement failed is not."""
        return "failed" not in self._rows.get(key_of(cell), {"failed": ""})

    def add(self, row: Row) -> None:
        """Adds a row, or replaces that of the same cell, and writes the file atomically."""
        self._rows[key_of(row)] = row
        if self.path is not None:
            write_text(self.path, json.dumps(list(self._rows.values()), indent=1))

    def check_device(self, device: str) -> None:
        """Raises `ValueError` where there are rows of another device: they would be compared."""
        others = {row["device"] for row in self if row.get("device", device) != device}
        if others:
            raise ValueError(
                f"--json={self.path} holds rows of {', '.join(sorted(others))}, and this is {device}. "
                "Name another file."
            )


def read_rows(path: str | Path) -> list[Row]:
    """The rows of a file.

    Raises:
        ValueError: where it holds anything else.
    """
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError:
        rows = None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "arch" in row for row in rows):
        raise ValueError(f"{path} holds no rows of a benchmark; expected a list of objects with an 'arch'.")
    return rows
