"""Works on one cell: what all engines do, wherever they do it."""

import errno
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from modtf.cell import Cell
from modtf.engines.lease import STALE_AFTER, Lease, LostLeaseError
from modtf.engines.owner import Owner
from modtf.engines.state import ERROR, diverged, state_of, write_error, write_manifest
from modtf.engines.workplace import Workplace, leases
from modtf.engines.xla_cache import use_xla_cache
from modtf.plugins import load_plugin
from modtf.registry import resolve

Report = Callable[[int], None]  # is told how many steps of a cell are done
#: trains a cell: (cell, folder to make the cell's folder in, report)
CellFunction = Callable[[Cell, Path, Report], Any]


@dataclass(frozen=True)
class Work:
    """What every engine is told beside the cells; picklable, for other processes and machines."""

    out: str  # the folder of the study
    function: str = "modtf.engines.train_cell:train_cell"  # reference to a `CellFunction`
    plugins: tuple[str, ...] = ()
    retry_failed: bool = False
    stale_after: float = STALE_AFTER

    def prepare(self) -> CellFunction:
        """The function, in a process of its own: plug-ins are loaded first, compiled programs kept."""
        for plugin in self.plugins:
            load_plugin(plugin)
        cache, function = use_xla_cache(), resolve(self.function)
        if cache is None:
            return function

        def keeping(cell: Cell, out: Path, report: Report) -> None:
            try:
                function(cell, out, report)
            finally:
                cache.keep()

        return keeping


@dataclass(frozen=True)
class Outcome:
    """How the work on a cell ended.

    `status`: "finished"; "skipped", it was finished already; "failed"; "busy", another process works on it;
    "lost", another process has taken it over; "stopped", the study cannot go on.
    """

    status: str
    reason: str = ""  # of "failed" and "stopped", in one line; of "finished" which members diverged, if any
    seconds: float = 0.0


def perform(
    cell: Cell,
    work: Work,
    function: CellFunction,
    report: Report = lambda steps: None,
    on_lost: Callable[[], object] | None = None,
) -> Outcome:
    """Runs a cell, unless it is finished or another process works on it; never raises on a cell's failure.

    A failure is recorded in the cell's folder, beside its checkpoint, with the traceback.

    Args:
        cell: which.
        work: where and how.
        function: what trains it.
        report: is told its progress.
        on_lost: see `Lease`.
    """
    out = Path(work.out)
    begun = time.monotonic()
    try:
        if outcome := _nothing_to_do(cell, work):
            return outcome
        lease = Lease.acquire(leases(out), cell.folder, stale_after=work.stale_after, on_lost=on_lost)
        if lease is None:
            return Outcome("busy")
        outcome = Outcome("lost")
        try:
            outcome = _with_lease(cell, work, function, report, lease)
        finally:
            lease.release(for_good=outcome.status in ("finished", "skipped"))
    except Exception as error:
        if not is_disk_full(error, out):
            raise
        return Outcome("stopped", f"the disk of {out} is full; make room and give the same command again")
    return replace(outcome, seconds=time.monotonic() - begun)


def is_disk_full(error: BaseException | None, folder: Path) -> bool:
    """Whether an error, or what led to it, is that nothing more can be written."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


def _nothing_to_do(cell: Cell, work: Work) -> Outcome | None:
    state = state_of(cell, work.out)
    if state.name == "finished":
        return Outcome("skipped")
    if state.name == "failed" and not work.retry_failed:
        return Outcome("failed", state.reason)
    return None


def _with_lease(cell: Cell, work: Work, function: CellFunction, report: Report, lease: Lease) -> Outcome:
    out = Path(work.out)
    place = Workplace(out, cell.folder, lease.token)
    try:
        place.take_over()  # from here on nobody else can publish; so look again
        if outcome := _nothing_to_do(cell, work):
            place.leave()
            return outcome
        if state_of(cell, out).name == "damaged":
            place.set_aside()
        place.enter()
        (place.private / ERROR).unlink(missing_ok=True)
        try:
            function(cell, place.root, report)
            write_manifest(place.private)
            outcome = Outcome("finished", _in_words(diverged(place.private)))
        except BaseException as error:
            if lease.is_lost:
                raise LostLeaseError from error  # whatever went wrong: the place is gone
            if not isinstance(error, Exception) or is_disk_full(error, out):
                place.publish()
                raise
            outcome = Outcome("failed", _record(error, place.private))
        place.publish()
        return outcome
    except LostLeaseError:
        place.leave()
        return Outcome("lost")


def _in_words(members: list[dict[str, int]]) -> str:
    one = "task {data_seed}, seed {seed} at step {step}"
    return f"diverged: {'; '.join(one.format(**member) for member in members)}" if members else ""


def _record(error: Exception, folder: Path) -> str:
    """Writes the error down; returns it in one line."""
    folder.mkdir(exist_ok=True)
    line = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    write_error(folder, {"message": line, "traceback": traceback.format_exc(), "where": str(Owner.here())})
    return line
