"""Runs a search to its end, alone or as one of many processes."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import keras_tuner

from modtf.engines.lease import Lease, holder
from modtf.engines.perform import Work
from modtf.files import write_text
from modtf.tuning import ORACLES
from modtf.tuning.chief import serve
from modtf.tuning.oracles import hyperparameters_of
from modtf.tuning.patient import POLL, PatientOracle, SearchEndedError
from modtf.tuning.role import Role
from modtf.tuning.search import DEFINITION, Search
from modtf.tuning.tuner import PopulationTuner, oracle_state

LEASES = "processes"  # in a search's folder: who is there
DONE = "done.json"  # says up to which limit the search has ended
PATIENCE = 60.0  # seconds that a worker waits for the chief to end what is done


def run_search(
    search: Search,
    work: Work,
    role: Role,
    limit: int | None = None,
    *,
    say: Callable[[str], None] = print,
    shown: bool = True,
) -> None:
    """Runs a search, or goes on with it; returns when all its trials have ended.

    Args:
        search: what is tuned.
        work: where and how cells are trained; `retry_failed` holds for trials.
        role: of this process. A chief trains nothing, and waits for workers.
        limit: of the number of trials.
        say: is given what is worth knowing, in lines.
        shown: whether to show progress.

    Raises:
        ValueError: if the search cannot go on: a full disk, a chief that does not answer.
    """
    folder = search.folder(work.out)
    if _is_done(folder, limit) and not work.retry_failed:
        return
    with _present(folder / LEASES, role.tuner_id, work.stale_after, say):
        oracle = ORACLES[search.oracle](hyperparameters_of(search.space), limit, search.seed)
        oracle.is_alive = lambda name: _is_there(folder / LEASES, name, work.stale_after)
        function = None if role.is_chief else work.prepare()
        tuner = PopulationTuner(search, work, oracle, not role.is_worker, function, say, shown)
        if role.is_worker:
            tuner.oracle = PatientOracle(tuner.oracle, role.address, lambda: _is_done(folder, limit))
        if not role.is_worker:
            _prepare(search, work, oracle, folder, limit)
        try:
            if role.is_chief:
                tuner.save()
                serve(oracle, role.address)
            else:
                tuner.search()
        except SearchEndedError:
            return
        except keras_tuner.errors.FatalError as error:
            raise ValueError(str(error)) from error
        except grpc.RpcError as error:
            raise ValueError(f"The chief at {role.address} does not answer: {_reason(error)}.") from error
        if role.is_worker:
            _wait_for_the_chief(folder, limit)
        else:
            write_text(folder / DONE, json.dumps({"limit": limit}))


def _prepare(search: Search, work: Work, oracle: keras_tuner.Oracle, folder: Path, limit: int | None) -> None:
    """Writes what the search is, and goes on with what was found before."""
    if not (folder / DEFINITION).exists():
        search.write(work.out)
    (folder / DONE).unlink(missing_ok=True)
    if oracle_state(oracle).exists():
        oracle.reload()
        if work.retry_failed:
            oracle.retry_failed()


@contextlib.contextmanager
def _present(folder: Path, name: str, stale_after: float, say: Callable[[str], None]) -> Iterator[None]:
    """Shows others that this process is there, by a name that nobody else has at the time."""
    lease = Lease.acquire(folder, name, stale_after=stale_after)
    if lease is None:
        say(f"{holder(folder, name, stale_after=stale_after)} does this already; waiting for it to end.")
    while lease is None:
        time.sleep(POLL)
        lease = Lease.acquire(folder, name, stale_after=stale_after)
    try:
        yield
    finally:
        lease.release()


def _is_there(folder: Path, name: str, stale_after: float) -> bool:
    try:
        return holder(folder, name, stale_after=stale_after) is not None
    except OSError:
        return True  # the file system is away; that says nothing of the process


def _is_done(folder: Path, limit: int | None) -> bool:
    try:
        return json.loads((folder / DONE).read_text(encoding="utf-8")) == {"limit": limit}
    except (OSError, ValueError):
        return False


def _wait_for_the_chief(folder: Path, limit: int | None) -> None:
    """Until it has ended this search: what it hears before would be of this one."""
    end = time.monotonic() + PATIENCE
    while not _is_done(folder, limit) and time.monotonic() < end:
        time.sleep(POLL)


def _reason(error: grpc.RpcError) -> str:
    return str(error.details() if hasattr(error, "details") else error)
