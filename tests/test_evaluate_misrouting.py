"""Models under other routings than their own: the rules asked of a model of the rules are its results."""

import runpy
from dataclasses import replace
from pathlib import Path

import misrouting
import pytest

from modtf import Evaluation, Training, run_cell
from modtf.results.load import load_results
from modtf.tasks.protocol import Protocol

SCRIPT = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "scripts" / "evaluate_misrouting.py"))
SIZES = Evaluation(
    batches=2, batch_size=64, tokens=640, activation_batch_size=64, draws=1, tokens_per_draw=64
)


def routed(arch, **router):
    """The cell of the study whose routing is given so."""
    cells = (cell for cell in misrouting.misrouting() if cell.task.arch == arch)
    return next(cell for cell in cells if cell.router == router)


def test_routings():
    rules = {"matrix": "spread", "amount": 0.0, "hard": False}
    asked = SCRIPT["asked"]
    assert len(asked(routed("mlp", **rules))) == 20
    assert len(asked(routed("rnn", **rules))) == 8
    drawn = {"matrix": "block", "amount": 2, "hard": True}
    assert asked(routed("rnn", **drawn)) == [{**drawn, "hard": False}, rules]
    assert not asked(routed("mlp", **{**drawn, "hard": False}))


@pytest.mark.slow
def test_what_was_trained_is_asked_again(tmp_path):
    cell = routed("mlp", matrix="spread", amount=0.0, hard=False)
    cell = replace(cell, width=8, members=cell.members[:2])
    cell = replace(cell, protocol=Protocol(Training(steps=4, batch_size=8, evaluations=1), SIZES))
    table = SCRIPT["crossed"](cell, run_cell(cell, tmp_path, verbose=False))
    rows = load_results(tmp_path).query("measure == 'loss' and condition == 'iid' and checkpoint == 'last'")
    own = table.query("asked_matrix == 'spread' and asked_amount == 0 and measure == 'loss'")
    assert own["value"].to_list() == pytest.approx(rows["value"].to_list(), rel=1e-5)
    assert len(table.groupby(["asked_matrix", "asked_amount", "asked_hard"])) == 20
