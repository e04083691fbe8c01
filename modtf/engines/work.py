"""The work of every engine on a cell, wherever it runs."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from modtf.base.files import FULL
from modtf.engines.lock import LockedError, Report, StopError, locked, this_process
from modtf.engines.state import State, finishing, state_of, write_error
from modtf.tasks.cell import Cell

#: trains a cell: (cell, folder that holds the cell's folder, function that receives finished steps)
CellFunction = Callable[[Cell, Path, Report], Any]
TRAIN = "modtf.engines.cell:train_and_report"  # reference to the usual one


def work_on(cell: Cell, out: str | Path, function: CellFunction) -> bool:
    """Run a cell, unless it has ended; return False if another process works on it.

    A failure is recorded with its traceback in the cell's folder, next to the checkpoint. Raise `StopError`
    if the disk is full.
    """
    try:
        with locked(out, cell.folder, patience=0.0) as report:
            state = state_of(cell, out)
            if state.name not in ("finished", "failed"):
                _record_failure(cell, Path(out), state, function, report)
        return True
    except LockedError:
        return False
    except Exception as error:
        if not _is_disk_full(error):
            raise
        raise StopError(f"the disk of {out} is full; free some space and rerun the command") from error


def _record_failure(cell: Cell, out: Path, state: State, function: CellFunction, report: Report) -> None:
    """Train a cell, and record its failure if it fails."""
    try:
        with finishing(cell, out, state):
            function(cell, out, report)
    except Exception as error:
        if _is_disk_full(error):
            raise
        line = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        (out / cell.folder).mkdir(exist_ok=True)
        record = {"message": line, "traceback": traceback.format_exc(), "where": this_process()}
        write_error(out / cell.folder, record)


def _is_disk_full(error: BaseException | None) -> bool:
    """Return whether an error, or its cause, is a full disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        error = error.__cause__ or error.__context__
    return False
