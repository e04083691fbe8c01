"""The bar of a study: what it counts, and a time left that one slow moment does not upset."""

from dataclasses import replace

import pytest

from modtf.engines import progress
from modtf.engines.work import Event, Outcome
from modtf.studies import grid


@pytest.fixture
def clock(monkeypatch):
    """A clock in a list of one, which the test moves."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return now


@pytest.fixture
def cells():
    """An mlp, and attention, whose examples have ten tokens: 1,000 steps of two members each."""
    options = {"num_rules": 2, "width": 32, "members": ((0, 0), (0, 1)), "training.steps": 1000}
    return grid(arch=["mlp", "mha"], variant="modular", **options).cells()


def test_speed_and_the_time_left_are_of_the_whole_run(cells, clock, capsys):
    """The mlp has a tenth of attention's tokens: after it a tenth of the time is over, not half."""
    bar = progress.StudyProgress(cells)
    for step in range(100, 1001, 100):
        clock[0] += 10
        bar(Event(cells[0], step))
    assert bar.speed == pytest.approx(20)
    bar(Event(cells[0], 1000, Outcome("finished")))
    clock[0] += 70  # compiling
    bar(Event(cells[1], 1))
    assert bar.speed == pytest.approx(2002 / 170)
    bar.close()
    last = capsys.readouterr().err.split("\r")[-1]
    tokens = cells[1].task.family.num_training_tokens
    assert tokens == 10
    left = 170 * (tokens - 0.01) / 1.01
    assert f"{int(left // 60)}:{int(left % 60):02d} left" in last
    assert last.startswith("cells 1/2   9%")
    assert "members x steps/s" in last


def test_what_failed_is_counted_and_what_another_process_holds_is_not(cells, capsys):
    bar = progress.StudyProgress(cells, done=3)
    bar(Event(cells[0], 0, Outcome("busy")))
    bar(Event(cells[1], 0, Outcome("failed", "it cannot be")))
    assert (bar.done, bar.total, bar.failed) == (4, 5, 1)
    bar.close()
    assert "cells 4/5, 1 failed" in capsys.readouterr().err


def test_a_wide_cell_takes_longer_than_a_narrow_one(cells):
    wide = replace(cells[0], width=512)
    assert 50 < progress._step_work(wide) / progress._step_work(cells[0]) < 512
