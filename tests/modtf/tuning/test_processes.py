"""Searches that are killed, and shared: by real processes, with trials that cost nothing."""

import contextlib
import json
from pathlib import Path

import pytest
from cheap import search_of

from modtf.tuning.search import SEARCHES
from modtf.tuning.trials import trials_of

RATES = "0.01,0.001,0.0001,0.1"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "tuning"


@pytest.fixture
def hold(tmp_path):
    """Trials of this learning rate wait while the file is there."""
    (tmp_path / "hold").write_text("0.001")
    return tmp_path / "hold"


def runs(folder):
    """Learning rate -> who began its trial, of published cells and of those that are worked on."""
    found = {}
    for path in [*folder.glob("*/runs"), *folder.glob(".modtf/running/*/*/runs")]:
        cells = {trial.cell.folder: trial for trial in trials(folder)}
        if path.parent.name in cells:
            with contextlib.suppress(FileNotFoundError):  # published meanwhile
                found[cells[path.parent.name].values["learning_rate"]] = path.read_text().split()
    return found


def trials(folder, axis=RATES):
    search = search_of(axis)
    return trials_of(search, search.folder(folder))


def test_a_search_that_is_killed_in_mid_trial_goes_on(start, eventually, folder, hold):
    """Nothing is lost: what had ended stays as it was, what was begun is taken up, the rest follows."""
    first = start("first", RATES)
    eventually(lambda: runs(folder).get(0.001))
    first.kill()
    before = {trial.number: trial for trial in trials(folder)}
    assert [trial.status for trial in before.values()] == ["finished", "unfinished"]
    ended = next(folder.glob(f"{SEARCHES}/*/trial_0000/trial.json")).read_bytes()
    hold.unlink()
    said = start("second", RATES).end()
    assert "learning_rate=0.01:" not in said, "it was run again"
    after = trials(folder)
    assert [trial.status for trial in after] == ["finished"] * 4
    assert [trial.values["learning_rate"] for trial in after] == [0.01, 0.001, 0.0001, 0.1]
    assert next(folder.glob(f"{SEARCHES}/*/trial_0000/trial.json")).read_bytes() == ended
    counts = {rate: len(names) for rate, names in runs(folder).items()}
    assert counts == {0.01: 1, 0.001: 2, 0.0001: 1, 0.1: 1}


def test_one_chief_and_two_workers_of_which_one_is_killed(start, eventually, folder, hold, together):
    """Its trial is the other's; two searches, one after the other; all end in order."""
    axis = f"{RATES};0.002,0.003"
    chief = start("chief", axis, **together("chief"))
    workers = {name: start(name, axis, **together(name)) for name in ("one", "two")}
    (holder,) = eventually(lambda: runs(folder).get(0.001))
    (other,) = set(workers) - {holder}
    eventually(lambda: sum(trial.status == "finished" for trial in trials(folder)) == 3)
    assert "ended" not in workers[other].said(), "it must stay: a trial may be left to it"
    workers[holder].kill()
    hold.unlink()
    workers[other].end()
    chief.end()
    assert [trial.status for trial in trials(folder)] == ["finished"] * 4
    assert [trial.status for trial in trials(folder, "0.002,0.003")] == ["finished"] * 2
    found = runs(folder)
    assert found[0.001] == [holder, other]
    assert all(len(names) == 1 for rate, names in found.items() if rate != 0.001)
    assert "trial" not in chief.said(), "a chief trains nothing"


def test_a_worker_that_comes_too_late_finds_all_done(start, folder, together, tmp_path):
    """Instead of waiting an hour for a chief that has ended."""
    start("alone", "0.01").end()
    assert start("late", "0.01", **together("late")).end().splitlines() == ["ended 0"]
    done = next(folder.glob(f"{SEARCHES}/*/done.json"))
    assert json.loads(done.read_text()) == {"limit": None}
    assert Path(tmp_path / "late.log").exists()


def test_two_processes_with_one_name_take_turns(start, eventually, folder, hold):
    first = start("first", RATES)
    eventually(lambda: runs(folder).get(0.001))
    second = start("second", RATES)
    eventually(lambda: "does this already; waiting" in second.said())
    hold.unlink()
    assert "trial" in first.end()
    assert "trial" not in second.end()
