"""Warm start: the router is fitted to the start, and trains freely afterwards."""

import numpy as np
import pytest

from modtf import Cell, Evaluation, Protocol, Task, Training, load_results, run_cell
from modtf.experiments.modarch.warm_start import ChoiceLoss, _choices
from modtf.tasks.population import Population

SIZES = Evaluation(
    batches=1, batch_size=32, tokens=2_000, activation_batch_size=500, draws=1, tokens_per_draw=100
)


def test_the_loss_is_the_brier_score():
    p = np.array([[0.5, 0.25, 0.25], [0.1, 0.0, 0.9]], np.float32)
    expected = (0.5**2 + 0.75**2 + 0.25**2 + 0.1**2 + 0.1**2) / 2
    assert float(ChoiceLoss()(np.array([1, 2]), p)) == pytest.approx(expected)


def test_what_is_chosen():
    population = Population.of([Task(num_rules=4), Task(num_rules=4, data_seed=1)], [0, 5])
    features, chosen = next(iter(_choices(population, 512, "oracle", 3)))
    np.testing.assert_array_equal(chosen["activation"], features["rule"])
    features, drawn = next(iter(_choices(population, 512, "random", 3)))
    together = [
        np.mean(a == b)
        for a, b in zip(features["rule"].numpy().T, drawn["activation"].numpy().T, strict=True)
    ]
    assert np.abs(np.array(together) - 1 / 4).max() < 0.08  # of independent ones
    np.testing.assert_array_equal(
        drawn["activation"], next(iter(_choices(population, 512, "random", 3)))[1]["activation"]
    )


@pytest.mark.slow
def test_a_specialised_start(tmp_path):
    protocol = Protocol(Training(steps=4, batch_size=64, evaluations=1, learning_rate=0.01), SIZES)
    for start in ("none", "oracle", "random"):
        trainer = {} if start == "none" else {"start": start, "start_steps": 100}
        cell = Cell(Task(num_rules=2), 8, "modular_op", ((0, 0), (1, 0)), protocol, trainer=trainer)
        run_cell(cell, tmp_path, verbose=False)
    rows = load_results(tmp_path).query("measure == 'alignment' and checkpoint == 'last'")
    found = rows.groupby("model_options")["value"]
    assert found.max()["trainer.start=oracle,trainer.start_steps=100"] < 0.1
    assert found.min()[""] > 0.3
    assert found.min()["trainer.start=random,trainer.start_steps=100"] > 0.3


@pytest.mark.parametrize(
    ("variant", "trainer", "message"),
    [
        ("gt_modular", {"start": "oracle"}, "start='oracle' needs a learned router"),
        ("modular", {"start": "best"}, "start='best'.*expected"),
        ("modular", {"start_steps": -1}, "start_steps=-1"),
    ],
)
def test_what_is_refused(variant, trainer, message, tmp_path):
    protocol = Protocol(Training(steps=4, batch_size=8, evaluations=1), SIZES)
    with pytest.raises(ValueError, match=message):
        run_cell(Cell(Task(), 4, variant, ((0, 0),), protocol, trainer=trainer), tmp_path, verbose=False)
    assert not list(tmp_path.iterdir())  # before anything is written
