"""Locks admit one process at a time; locks that do not hold. For processes that die see `test_work.py`."""

import errno
import fcntl
import os
import threading
from unittest.mock import Mock

import pytest
from simulated_results import write_cell

from modtf.engines.lock import PATIENCE, LockedError, NoLocksError, is_locked, locked, remove_left
from modtf.engines.state import state_of
from modtf.results.manifest import write_manifest
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
