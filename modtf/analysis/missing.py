"""What a study does not hold yet, so that nobody takes a part for the whole."""

from collections.abc import Sequence
from itertools import product

import pandas as pd

from modtf.results.cells import CellFolder, Source, find_cells
from modtf.results.schema import CELL, VARIANTS

KIND = ("arch", "setting", "search")


def find_missing(directory: Source, variants: Sequence[str] = VARIANTS) -> pd.DataFrame:
    """The cells that are unfinished, lack members, or are absent from the grid that the others span.

    The grid of an architecture and setting is every number of rules x every width that was found there, x the
    variants. Members are compared with all that any of its cells has.

    Returns:
        One row per such cell: the columns of `CELL`, `status` ("unfinished", "fewer models" or "absent") and
        `detail`. No rows when nothing is missing.

    Raises:
        FileNotFoundError, ValueError: as `find_cells`.
    """
    cells = find_cells(directory)
    members: dict[tuple[object, ...], set[tuple[int, int]]] = {}
    started: dict[tuple[object, ...], CellFolder] = {}
    for cell in cells:
        key = tuple(cell.cell.values())
        if cell.is_finished:
            members.setdefault(key, set()).update(cell.members)
        else:
            started[key] = cell
    rows = []
    for kind in dict.fromkeys(tuple(cell.cell[name] for name in KIND) for cell in cells):
        of_kind = [cell for cell in cells if tuple(cell.cell[name] for name in KIND) == kind]
        everyone = set().union(*(cell.members for cell in of_kind))
        sizes = [sorted({cell.cell[name] for cell in of_kind}) for name in ("num_rules", "width")]
        for size in product(*sizes, variants):
            key = (*kind, *size)
            lacking = everyone - members.get(key, set())
            if key not in members:
                unfinished = key in started
                status, detail = ("unfinished", str(started[key].path)) if unfinished else ("absent", "")
                rows.append((*key, status, detail))
            elif lacking:
                rows.append(
                    (*key, "fewer models", f"{len(lacking)} of {len(everyone)} (task, seed) pairs lack")
                )
    return pd.DataFrame(rows, columns=[*CELL, "status", "detail"])
