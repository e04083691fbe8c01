"""A cell in every state, and its lock: finished once, resumed, failed, damaged, held by another process."""

import errno
import fcntl
import json
import os
import signal
import threading
from unittest.mock import Mock

import dummy
import pytest
from simulated_results import write_cell

from modtf.engines.state import (
    PATIENCE,
    LockedError,
    NoLocksError,
    State,
    StopError,
    is_locked,
    locked,
    remove_left,
    state_of,
    work_on,
    write_config,
)
from modtf.results.schema import PRIVATE, write_manifest
from modtf.studies import grid


def test_while_it_is_held_nobody_else_gets_it_and_is_told_who_has_it(tmp_path):
    with locked(tmp_path, "cell"):
        said = rf"/cell is in use by process {os.getpid()} on .* since"
        with pytest.raises(LockedError, match=said):
            locked(tmp_path, "cell").__enter__()
        assert is_locked(tmp_path, "cell")
        assert not is_locked(tmp_path, "cell.2")
    assert not is_locked(tmp_path, "cell")
    left = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["cell.2.lock", "cell.lock"]  # never removed; nobody's name beside them


def test_what_a_kill_left_is_removed_where_nobody_works(tmp_path):
    (cell,) = grid(arch="mlp", num_rules=2, width=4, variant="modular", members=((0, 0),)).cells()
    write_manifest(write_cell(tmp_path, cell, num_evaluations=1))
    locks = tmp_path / ".modtf" / "locks"
    locks.mkdir(parents=True)
    (locks / f"{cell.folder}.txt").write_text("process 1 on a machine that was switched off")
    assert state_of(cell, tmp_path).name == "finished"
    assert not list(locks.glob("*.txt"))
    with locked(tmp_path, "other"):
        (locks / "left.txt").write_text("process 2")
        remove_left(tmp_path)
        assert [path.name for path in locks.glob("*.txt")] == ["other.txt"]


def test_whoever_waits_gets_it_after_the_other(tmp_path):
    order = []

    def second():
        with locked(tmp_path, "cell", -1):
            order.append("second")

    with locked(tmp_path, "cell"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(2 * PATIENCE)
        order.append("first")
    thread.join(60)
    assert order == ["first", "second"]


@pytest.mark.filterwarnings("ignore:flock not supported")
@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK])
def test_a_file_system_without_locks(tmp_path, monkeypatch, code):
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", Mock(side_effect=OSError(code, os.strerror(code))))
        with pytest.raises(NoLocksError, match=r"that cannot lock files, .* Choose a folder"):
            locked(tmp_path, "cell").__enter__()
    with locked(tmp_path, "cell"):
        pass


WORK_ON = """
import sys, json, dummy
from modtf.tasks.cell import Cell
from modtf.engines.state import work_on
cell = Cell.from_dict(json.loads(sys.argv[1]))
print(work_on(cell, sys.argv[2], dummy.slow_steps), flush=True)
"""


@pytest.fixture
def status(tmp_path):
    """status(cell, function) -> its state after it was worked on; "busy" if another process has it."""
    out = tmp_path / "out"
    return lambda cell, function: state_of(cell, out).name if work_on(cell, out, function) else "busy"


def noting(seen):
    return lambda cell, out, report: dummy.steps(cell, out, report, at=seen.append)


refuse = Mock(side_effect=AssertionError("nothing should have run"))


def test_a_cell_is_finished_once_and_goes_on_where_it_was(cells, status, tmp_path):
    """An interrupted process, or `launch/run.py`, left it unfinished."""
    folder = tmp_path / "out" / cells[0].folder
    folder.mkdir(parents=True)
    (folder / "checkpoint.npz").write_text("15")
    seen: list[int] = []
    assert status(cells[0], noting(seen)) == "finished"
    assert seen == [16, 17, 18, 19, 20]
    assert state_of(cells[0], tmp_path / "out").name == "finished"
    assert status(cells[0], refuse) == "finished"


def test_a_failure_is_recorded_and_left_alone_until_it_is_retried(cells, status, tmp_path):
    cell, said = cells[2], "ValueError: this cell cannot be trained"
    assert status(cell, dummy.raising) == "failed"
    record = json.loads((tmp_path / "out" / cell.folder / "error.json").read_text())
    assert record["message"] == said
    assert "dummy.py" in record["traceback"]
    assert "cannot be trained" in record["traceback"]
    assert status(cell, refuse) == "failed"
    (tmp_path / "out" / cell.folder / "error.json").unlink()
    seen: list[int] = []
    assert status(cell, noting(seen)) == "finished"
    assert seen[0] == 3  # two steps were done


def test_members_that_diverged_are_recorded(cells, status, tmp_path):
    def train(cell, out, report):
        folder = dummy.steps(cell, out, report)
        rows = ["step,data_seed,seed,measure,condition,value", "5,0,0,loss,iid,1", "5,0,1,loss,iid,2"]
        rows += ["10,0,0,loss,iid,1", "10,0,1,loss,iid,inf", "15,0,0,loss,iid,1", "15,0,1,loss,iid,"]
        rows += ["5,0,0,other,iid,"]  # a measure that this model cannot have
        (folder / "history.csv").write_text("\n".join(rows))

    assert status(cells[0], train) == "finished"
    manifest = json.loads((tmp_path / "out" / cells[0].folder / "manifest.json").read_text())
    assert manifest["diverged"] == [{"data_seed": 0, "seed": 1, "step": 10}]


def test_an_interrupted_cell_is_neither_failed_nor_locked(cells, status, tmp_path):
    def interrupt(step):
        if step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work_on(cells[0], tmp_path / "out", lambda *arguments: dummy.steps(*arguments, at=interrupt))
    assert (tmp_path / "out" / cells[0].folder / "checkpoint.npz").read_text() == "5"
    assert status(cells[0], dummy.steps) == "finished"


def test_a_full_disk_stops_the_study_and_is_no_failure_of_the_cell(cells, status, tmp_path):
    def write(step):
        if step == 5:
            raise RuntimeError("cannot save") from OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StopError, match="is full; free some space"):
        status(cells[0], lambda *arguments: dummy.steps(*arguments, at=write))
    assert state_of(cells[0], tmp_path / "out").name == "open"
    assert status(cells[0], dummy.steps) == "finished"


@pytest.mark.parametrize("damage", [lambda text: text[:-3], lambda text: text.replace("20", "21")])
def test_a_damaged_result_is_set_aside_and_run_again(cells, status, tmp_path, damage):
    out = tmp_path / "out"
    work_on(cells[0], tmp_path / "out", dummy.steps)
    path = out / cells[0].folder / "results.csv"
    whole = path.read_text()
    path.write_text(damage(whole))
    assert state_of(cells[0], out).name == "damaged"
    assert status(cells[0], dummy.steps) == "finished"
    assert path.read_text() == whole
    (aside,) = (out / PRIVATE / "damaged").iterdir()
    assert (aside / "results.csv").read_text() == damage(whole)


def test_it_is_unfinished_until_its_manifest_is_written(cells, status, tmp_path, monkeypatch):
    """Killed before, its checkpoint is there; without either it is from a time without manifests."""

    def leave_checkpoint(cell, out, report):
        (dummy.steps(cell, out, report) / "checkpoint.npz").write_text("20")

    folder = tmp_path / "out" / cells[0].folder
    with monkeypatch.context() as patched:
        patched.setattr("modtf.engines.state.write_manifest", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            work_on(cells[0], tmp_path / "out", leave_checkpoint)
    assert (folder / "results.csv").exists()
    assert state_of(cells[0], tmp_path / "out").name == "open"
    assert status(cells[0], leave_checkpoint) == "finished"
    assert not (folder / "checkpoint.npz").exists()
    assert "checkpoint.npz" not in (folder / "manifest.json").read_text()
    (folder / "checkpoint.npz").write_text("20")  # as a kill just after the manifest does
    assert status(cells[0], refuse) == "finished"
    assert not (folder / "checkpoint.npz").exists()
    (folder / "manifest.json").unlink()
    assert state_of(cells[0], tmp_path / "out").name == "damaged"  # its results are no table
    write_config(cells[0], folder)  # which says that there is to be one
    assert state_of(cells[0], tmp_path / "out") == State("damaged", "manifest.json is missing")
    (folder / "checkpoint.npz").write_text("20")
    assert state_of(cells[0], tmp_path / "out").name == "open"


def test_what_another_process_works_on_or_nobody_can_lock(cells, status, tmp_path, monkeypatch):
    with locked(tmp_path / "out", cells[0].folder):
        assert status(cells[0], refuse) == "busy"

    monkeypatch.setattr("modtf.engines.state.locked", Mock(side_effect=NoLocksError("no locks here")))
    with pytest.raises(StopError, match="no locks here"):
        status(cells[0], refuse)


def test_a_killed_process_loses_no_step_and_a_stopped_one_not_its_cell(
    cells, status, start, tmp_path, eventually
):
    process = start(WORK_ON, json.dumps(cells[0].to_dict()), tmp_path / "out")
    folder = tmp_path / "out" / cells[0].folder
    eventually((folder / "checkpoint.npz").exists)
    os.kill(process.pid, signal.SIGSTOP)
    assert status(cells[0], refuse) == "busy"
    with pytest.raises(LockedError, match=f"process {process.pid} on"):
        locked(tmp_path / "out", cells[0].folder).__enter__()
    process.kill()
    process.wait()
    seen: list[int] = []
    assert status(cells[0], noting(seen)) == "finished"
    history = (folder / "history.csv").read_text().split()
    assert 1 < seen[0] <= 20
    assert sorted(set(map(int, history))) == list(range(1, 21))
