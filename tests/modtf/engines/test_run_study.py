"""A study: the cells that run, the messages, and the progress bar's estimate of the time left."""

import sys
from dataclasses import replace
from unittest.mock import Mock

import pytest
from dummy import results

from modtf.analysis import find_missing
from modtf.base.files import write_text
from modtf.engines import run_study as progress
from modtf.engines.state import State, StopError, locked, write_asked
from modtf.results.schema import MANIFEST, PRIVATE
from modtf.studies import grid
from modtf.studies.grid import check_cells
from modtf.training.checkpoint_file import save


def test_a_study_is_run_once_and_extended_by_what_is_new(run, cells, tmp_path):
    counts, said, summary = run("steps", chosen=cells[:2])
    assert (counts, said, summary.failed) == ((2, 0, 0), "", {})
    counts, _, _ = run("steps")
    assert counts == (2, 2, 0)
    assert results(tmp_path / "out") == {cell.folder: f"{cell.label},20\n" for cell in cells}
    left = [path.suffix for path in (tmp_path / "out" / PRIVATE).rglob("*") if path.is_file()]
    assert left == [".lock"] * 4


def test_what_was_asked_for_is_known_before_anything_is_run(run, cells, tmp_path):
    class Idle:
        is_here = True

        def run(self, *_):
            raise StopError("asleep")

        close = Mock()

    with pytest.raises(StopError, match="asleep"):
        run("steps", Idle())
    assert find_missing(tmp_path / "out")["width"].tolist() == [4, 5, 6, 7]
    assert run("steps")[0] == (4, 0, 0)


def test_a_folder_that_is_there_is_not_given_what_was_asked_for(cells, tmp_path):
    """Another process began the folder; its config is missing."""
    (tmp_path / cells[0].folder).mkdir()
    write_asked(cells, tmp_path)
    assert [(tmp_path / cell.folder / "config.json").exists() for cell in cells] == [False, True, True, True]
    assert {path.name for path in tmp_path.iterdir()} == {cell.folder for cell in cells}


def test_a_cell_with_its_options_in_another_order_is_not_run_again(run, cells, tmp_path):
    """The order is a part of the folder's name, but not of the hash."""
    one, other = (
        replace(cells[3], variant="top_k", router=options)
        for options in ({"k": 1, "modules": 2}, {"modules": 2, "k": 1})
    )
    assert one == other
    assert one.folder != other.folder
    assert run("steps", chosen=[one])[0] == (1, 0, 0)
    words = rf"{one.folder} holds the cell {other.label} with its options in another order"
    with pytest.raises(ValueError, match=words):
        run("steps", chosen=[cells[0], other])
    assert list(results(tmp_path / "out")) == [one.folder]
    assert not (tmp_path / "out" / cells[0].folder).exists(), "nothing is begun"
    with pytest.raises(ValueError, match=r"holds the cell .* twice"):
        check_cells([one, other])


def test_a_failed_cell_does_not_end_the_study(run, cells, tmp_path):
    counts, _, summary = run("raising")
    assert counts == (3, 0, 1)
    assert summary.failed == {cells[2].folder: "ValueError: this cell cannot be trained"}
    assert "failed before and not run again; --retry_failed" in run("steps")[1]
    assert run("steps", retry_failed=True)[0] == (1, 3, 0)


def test_remarks_on_what_is_there(run, cells, tmp_path, monkeypatch):
    """Results of another version are kept; a damaged one is run again."""
    run("steps")
    path = tmp_path / "out" / cells[1].folder / "results.csv"
    path.write_bytes(path.read_bytes()[:-2])
    counts, said, _ = run("steps")
    assert counts == (1, 3, 0)
    assert f"{cells[1].folder} is damaged: the size of results.csv changed" in said
    assert path.read_text() == f"{cells[1].label},20\n"
    monkeypatch.setattr("modtf.engines.state.__version__", "7.1.0")
    counts, said, _ = run("steps")
    assert counts == (0, 4, 0)
    assert "4 cells finished by modtf 0.1.0, whose numbers may differ; they are kept" in said


@pytest.fixture
def clock(monkeypatch):
    """A clock in a list of one, which the test moves."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return now


@pytest.fixture
def pair():
    """An mlp and an attention cell (ten tokens per example): 1,000 steps of two members each."""
    options = {"num_rules": 2, "width": 32, "members": ((0, 0), (0, 1)), "training.steps": 1000}
    return grid(arch=["mlp", "mha"], variant="modular", **options).cells()


def test_speed_and_the_time_left_are_of_the_whole_run(pair, clock, capsys, monkeypatch, tmp_path):
    """The mlp has a tenth of attention's tokens: after it a tenth of the time is over, not half."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    wide = replace(pair[0], width=512)
    assert 50 < progress._step_work(wide) / progress._step_work(pair[0]) < 512
    bar = progress.StudyProgress(pair, tmp_path)
    with locked(tmp_path, pair[0].folder) as report:
        for step in range(100, 1001, 100):
            clock[0] += 10
            report(step)
            bar.look()
    assert bar.speed == pytest.approx(20)
    write_text(tmp_path / pair[0].folder / MANIFEST, "{}")
    bar.look()
    clock[0] += 70  # compiling
    with locked(tmp_path, pair[1].folder) as report:
        clock[0] += 1
        report(1)
        bar.look()
    assert bar.speed == pytest.approx(2002 / 171)
    bar.close()
    last = capsys.readouterr().err.split("\r")[-1]
    tokens = pair[1].task.family.num_tokens(pair[1].task)
    assert tokens == 10
    left = 171 * (tokens - 0.01) / 1.01
    assert f"{int(left // 60)}:{int(left % 60):02d} left" in last
    assert last.startswith("cells 1/2   9%")
    assert "members x steps/s" in last


def test_speed_and_the_time_left_leave_out_earlier_steps(pair, clock, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    save(tmp_path / pair[0].folder / "checkpoint.npz", {})
    bar = progress.StudyProgress(pair[:1], tmp_path)
    with locked(tmp_path, pair[0].folder) as report:
        for step in (500, 600):
            clock[0] += 10
            report(step)
            bar.look()
    assert bar.speed == pytest.approx(10)
    bar.close()
    assert "60%" in (last := capsys.readouterr().err.split("\r")[-1])
    assert "01:20 left" in last


def test_what_failed_is_counted_and_what_another_process_holds_is_not(pair, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    bar = progress.StudyProgress(pair, tmp_path, done=3)
    write_text(tmp_path / pair[1].folder / "error.json", '{"message": "it cannot be"}')
    with locked(tmp_path, pair[0].folder):
        bar.look()
    assert (bar.done, bar.total, bar.failed) == (4, 5, 1)
    assert list(bar.left) == [pair[0].folder]
    bar.close()
    assert "cells 4/5, 1 failed" in capsys.readouterr().err


def test_a_damaged_cell_that_another_process_has_repaired_stays(run, cells, tmp_path, monkeypatch):
    run("steps", chosen=cells[:1])
    real, seen = progress.state_of, []

    def before(cell, out):
        seen.append(cell)
        return State("damaged", "a file") if len(seen) == 1 else real(cell, out)

    monkeypatch.setattr(progress, "state_of", before)
    run("steps", chosen=cells[:1])
    assert len(seen) == 2
    assert results(tmp_path / "out") == {cells[0].folder: f"{cells[0].label},20\n"}
    assert not (tmp_path / "out" / PRIVATE / "damaged").exists()
