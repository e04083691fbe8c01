"""What a study does not hold yet, so that nobody takes a part for the whole."""

from collections.abc import Sequence
from itertools import product

import pandas as pd

from modtf.results.cells import CellFolder, Source, find_cells
from modtf.results.schema import CELL, KIND, VARIANTS

MODEL = ("variant", "model_options")


def find_missing(directory: Source, variants: Sequence[str] = VARIANTS) -> pd.DataFrame:
    """The cells that are unfinished, lack members, or are absent from the grid that the others span.

    The grid of a kind of task is every number of rules x every width that was found there, x the variants
    given and those found there. Members are compared with all that any of its cells has.

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
    for kind in dict.fromkeys(_values(cell, KIND) for cell in cells):
        of_kind = [cell for cell in cells if _values(cell, KIND) == kind]
        everyone = set().union(*(cell.members for cell in of_kind))
        models = dict.fromkeys([*((name, "") for name in variants), *(_values(c, MODEL) for c in of_kind)])
        sizes = [sorted({cell.cell[name] for cell in of_kind}) for name in ("num_rules", "width")]
        for num_rules, width, model in product(*sizes, models):
            key = (*kind, num_rules, width, *model)
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


def _values(cell: CellFolder, names: Sequence[str]) -> tuple:
    return tuple(cell.cell[name] for name in names)
