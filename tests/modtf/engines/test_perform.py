"""One cell, whatever happens to it: finished once, resumed, failed, or taken over."""

import errno
import json
import os
import signal

import dummy
import pytest

from modtf.engines.lease import Lease, LostLeaseError
from modtf.engines.perform import Outcome, perform
from modtf.engines.state import state_of
from modtf.engines.workplace import PRIVATE, Workplace, leases

PERFORM = """
import sys, json, dummy
from modtf.cell import Cell
from modtf.engines.perform import Work, perform
cell, work = Cell.from_dict(json.loads(sys.argv[1])), Work(sys.argv[2], stale_after=float(sys.argv[3]))
print("started", flush=True)
print(perform(cell, work, getattr(dummy, sys.argv[4])).status, flush=True)
"""


def status(*arguments, **options):
    return perform(*arguments, **options).status


def refuse(*_):
    raise AssertionError("nothing should have run")


def test_a_cell_is_finished_once(cells, work, tmp_path):
    seen: list[int] = []
    assert status(cells[0], work(), dummy.steps, seen.append) == "finished"
    assert seen == list(range(1, 21))
    assert state_of(cells[0], tmp_path / "out").name == "finished"
    assert status(cells[0], work(), refuse) == "skipped"
    left = [p.name for p in (tmp_path / "out" / PRIVATE).rglob("*") if p.is_file()]
    assert left == []  # no lease, no place


def test_an_unfinished_cell_goes_on_where_it_was(cells, work, tmp_path):
    """Left in the open by an interrupted process, or by `launch/run.py`."""
    folder = tmp_path / "out" / cells[0].folder
    folder.mkdir(parents=True)
    (folder / "checkpoint.npz").write_text("15")
    seen: list[int] = []
    assert status(cells[0], work(), dummy.steps, seen.append) == "finished"
    assert seen == [16, 17, 18, 19, 20]


def test_a_failure_is_recorded_and_left_alone_until_it_is_retried(cells, work, tmp_path):
    cell = cells[2]
    outcome = perform(cell, work(), dummy.raising)
    assert (outcome.status, outcome.reason) == ("failed", "ValueError: this cell cannot be trained")
    record = json.loads((tmp_path / "out" / cell.folder / "error.json").read_text())
    assert record["message"] == outcome.reason
    assert "dummy.py" in record["traceback"]
    assert "cannot be trained" in record["traceback"]
    assert perform(cell, work(), refuse) == Outcome("failed", outcome.reason)
    seen: list[int] = []
    assert status(cell, work(retry_failed=True), dummy.steps, seen.append) == "finished"
    assert seen[0] == 3  # two steps were done
    assert not (tmp_path / "out" / cell.folder / "error.json").exists()


def test_members_that_diverged_are_recorded(cells, work, tmp_path):
    def train(cell, out, report):
        folder = dummy.steps(cell, out, report)
        rows = ["step,data_seed,seed,measure,condition,value", "5,0,0,loss,iid,1", "5,0,1,loss,iid,2"]
        rows += ["10,0,0,loss,iid,1", "10,0,1,loss,iid,inf", "15,0,0,loss,iid,1", "15,0,1,loss,iid,"]
        rows += ["5,0,0,other,iid,"]  # a measure that this model cannot have
        (folder / "history.csv").write_text("\n".join(rows))

    outcome = perform(cells[0], work(), train)
    assert (outcome.status, outcome.reason) == ("finished", "diverged: task 0, seed 1 at step 10")
    manifest = json.loads((tmp_path / "out" / cells[0].folder / "manifest.json").read_text())
    assert manifest["diverged"] == [{"data_seed": 0, "seed": 1, "step": 10}]


def test_an_interrupted_cell_is_neither_failed_nor_locked(cells, work, tmp_path):
    def interrupt(step):
        if step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform(cells[0], work(), lambda *arguments: dummy.steps(*arguments, at=interrupt))
    assert (tmp_path / "out" / cells[0].folder / "checkpoint.npz").read_text() == "5"
    assert status(cells[0], work(), dummy.steps) == "finished"


def test_a_full_disk_stops_the_study_and_is_no_failure_of_the_cell(cells, work, tmp_path):
    def write(step):
        if step == 5:
            raise RuntimeError("cannot save") from OSError(errno.ENOSPC, "No space left on device")

    outcome = perform(cells[0], work(), lambda *arguments: dummy.steps(*arguments, at=write))
    assert outcome.status == "stopped"
    assert "is full; make room" in outcome.reason
    assert state_of(cells[0], tmp_path / "out").name == "open"
    assert status(cells[0], work(), dummy.steps) == "finished"


@pytest.mark.parametrize(
    "damage", [lambda text: text[:-3], lambda text: text.replace("20", "21"), lambda text: ""]
)
def test_a_damaged_result_is_set_aside_and_run_again(cells, work, tmp_path, damage):
    out = tmp_path / "out"
    perform(cells[0], work(), dummy.steps)
    path = out / cells[0].folder / "results.csv"
    whole = path.read_text()
    path.write_text(damage(whole))
    assert state_of(cells[0], out).name == "damaged"
    assert status(cells[0], work(), dummy.steps) == "finished"
    assert path.read_text() == whole
    (aside,) = (out / PRIVATE / "damaged").iterdir()
    assert (aside / "results.csv").read_text() == damage(whole)


def test_a_process_that_holds_the_cell_is_not_disturbed(cells, work, tmp_path):
    lease = Lease.acquire(leases(tmp_path / "out"), cells[0].folder)
    assert lease is not None
    assert status(cells[0], work(), refuse) == "busy"
    lease.release()


def test_a_killed_process_loses_no_step(cells, work, start, tmp_path, eventually):
    process = start(PERFORM, json.dumps(cells[0].to_dict()), tmp_path / "out", 1000, "slow_steps")
    running = tmp_path / "out" / PRIVATE / "running"
    eventually(lambda: list(running.glob("*/*/checkpoint.npz")))
    process.kill()
    process.wait()
    seen: list[int] = []
    assert status(cells[0], work(stale_after=1000), dummy.steps, seen.append) == "finished"
    history = (tmp_path / "out" / cells[0].folder / "history.csv").read_text().split()
    assert 1 < seen[0] <= 20
    assert sorted(set(map(int, history))) == list(range(1, 21))
    assert not list(running.iterdir())


def test_a_stopped_process_that_wakes_up_publishes_nothing(cells, work, start, tmp_path, eventually):
    process = start(PERFORM, json.dumps(cells[0].to_dict()), tmp_path / "out", 1, "slow_steps")
    running = tmp_path / "out" / PRIVATE / "running"
    eventually(lambda: list(running.glob("*/*/checkpoint.npz")))
    os.kill(process.pid, signal.SIGSTOP)
    assert status(cells[0], work(stale_after=1), refuse) == "busy"
    eventually(lambda: status(cells[0], work(stale_after=1), dummy.steps) == "finished")
    published = tmp_path / "out" / cells[0].folder
    before = {path: (path.stat().st_ino, path.read_bytes()) for path in published.iterdir()}
    os.kill(process.pid, signal.SIGCONT)
    assert process.communicate()[0].split() == ["started", "lost"]
    assert {path: (path.stat().st_ino, path.read_bytes()) for path in published.iterdir()} == before
    assert not list(running.iterdir())


def test_a_sleeper_cannot_publish_even_if_it_looked_just_before(cells, tmp_path):
    """Publishing is one renaming of a place that whoever takes over has renamed before."""
    name = cells[0].folder
    sleeper, other = Workplace(tmp_path, name, "a"), Workplace(tmp_path, name, "b")
    sleeper.take_over()
    sleeper.enter()
    sleeper.private.mkdir()
    (sleeper.private / "checkpoint.npz").write_text("9")
    other.take_over()
    other.enter()
    assert (other.private / "checkpoint.npz").read_text() == "9"
    sleeper.private.mkdir(parents=True)  # its next write makes the folders again
    (sleeper.private / "results.csv").write_text("old")
    with pytest.raises(LostLeaseError):
        sleeper.publish()
    sleeper.leave()
    (other.private / "results.csv").write_text("new")
    other.publish()
    assert (tmp_path / name / "results.csv").read_text() == "new"


def test_what_a_sleeper_writes_again_is_not_taken_for_progress(cells, tmp_path):
    name = cells[0].folder
    ghost = Workplace(tmp_path, name, "a")
    ghost.private.mkdir(parents=True)
    (ghost.private / "checkpoint.npz").write_text("1")
    mine = Workplace(tmp_path, name, "b")
    mine.take_over()
    mine.enter()
    assert not mine.private.exists()
    assert not ghost.root.exists()
