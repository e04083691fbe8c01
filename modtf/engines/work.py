"""The contract of engines: their input, their work on a cell, and their reports, wherever they run."""

import traceback
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from modtf.base.files import FULL
from modtf.base.plugins import load_plugin
from modtf.base.registry import resolve
from modtf.engines.lock import LockedError, NoLocksError, locked, this_process
from modtf.engines.state import State, finishing, state_of, state_under_lock, write_error
from modtf.results.manifest import diverged
from modtf.tasks.cell import Cell

Report = Callable[[int], None]  # receives the number of finished steps of a cell
#: trains a cell: (cell, folder that holds the cell's folder, report)
CellFunction = Callable[[Cell, Path, Report], Any]


@dataclass(frozen=True)
class Work:
    """The settings that every engine receives with the cells; picklable, for other processes and machines."""

    out: str  # the folder of the study
    function: str = "modtf.engines.cell:train_and_report"  # reference to a `CellFunction`
    plugins: tuple[str, ...] = ()
    retry_failed: bool = False

    def prepare(self) -> CellFunction:
        """Return the function to call in a separate process, after loading plug-ins."""
        for plugin in self.plugins:
            load_plugin(plugin)
        return resolve(self.function)


@dataclass(frozen=True)
class Outcome:
    """The end of the work on a cell.

    `status`: "finished"; "skipped": it was finished before; "failed"; "busy": another process works on it;
    "stopped": the study cannot continue.
    """

    status: str
    reason: str = ""  # of "failed" and "stopped", in one line; for "finished" the diverged members, if any


@dataclass(frozen=True)
class Event:
    """News of a cell: the number of finished steps, and the outcome once it has ended."""

    cell: Cell
    steps: int = 0
    outcome: Outcome | None = None


class Engine(Protocol):
    """Calls `work_on` for cells, in this process or elsewhere."""

    is_here: bool  # whether all cells run on this machine, and must fit into its memory

    def run(self, cells: Sequence[Cell], work: Work) -> Generator[Event, None, None]:
        """Yield news as it comes, with exactly one outcome per cell.

        Closing the generator early stops the work, and leaves no process behind.
        """


def work_on(cell: Cell, work: Work, function: CellFunction, report: Report = lambda steps: None) -> Outcome:
    """Run a cell, unless it is finished or another process works on it; a failed cell raises nothing.

    A failure is recorded with its traceback in the cell's folder, next to the checkpoint.
    """
    try:
        state = state_of(cell, work.out)
        if outcome := nothing_to_do(state, work):
            return outcome
        with locked(work.out, cell.folder):
            state = state_under_lock(cell, work.out, state)
            return nothing_to_do(state, work) or _finish(cell, work, state, function, report)
    except LockedError:
        return Outcome("busy")
    except NoLocksError as error:
        return Outcome("stopped", str(error))
    except Exception as error:
        if not _is_disk_full(error):
            raise
        return Outcome("stopped", f"the disk of {work.out} is full; free some space and rerun the command")


def _is_disk_full(error: BaseException | None) -> bool:
    """Return whether an error, or its cause, is a full disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        error = error.__cause__ or error.__context__
    return False


def nothing_to_do(state: State, work: Work) -> Outcome | None:
    """Return the outcome of a cell that must not run; None for one that must."""
    if state.name == "finished":
        return Outcome("skipped")
    if state.name == "failed" and not work.retry_failed:
        return Outcome("failed", state.reason)
    return None


def _finish(cell: Cell, work: Work, state: State, function: CellFunction, report: Report) -> Outcome:
    folder = Path(work.out, cell.folder)
    try:
        with finishing(cell, work.out, state):
            function(cell, Path(work.out), report)
    except Exception as error:
        if _is_disk_full(error):
            raise
        folder.mkdir(exist_ok=True)
        line = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        record = {"message": line, "traceback": traceback.format_exc(), "where": this_process()}
        write_error(folder, record)
        return Outcome("failed", line)
    one = "task {data_seed}, seed {seed} at step {step}"
    lost = "; ".join(one.format(**member) for member in diverged(folder))
    return Outcome("finished", f"diverged: {lost}" if lost else "")
