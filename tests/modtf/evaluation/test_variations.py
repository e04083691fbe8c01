"""Evaluations of tasks with the options of `modtf.families.varied`, against NumPy."""

from dataclasses import replace

import numpy as np
import pytest

from modtf import Population, Task
from modtf.evaluation.evaluator import Evaluator
from modtf.metrics import measure_all
from modtf.models.build import build


def evaluated(task, sizes, variant="modular", members=2):
    """Return a model of a population, and its scores by row."""
    population = Population.of([task.replace(data_seed=n) for n in range(members)], [*range(members)])
    model = build(population, variant, 4)
    return model, Evaluator(model, population, sizes).run()


@pytest.mark.parametrize(
    "options", [{"arch": "mlp", "setting": "classification"}, {"arch": "rnn", "target": "state"}]
)
def test_unequal_rules(options, small_sizes, batches):
    """Frequent and rare rules stand apart, and measures weight rules by their frequencies."""
    task, sizes = Task(num_rules=3, zipf=1.0, **options), replace(small_sizes, conditions=())
    model, scores = evaluated(task, sizes)
    tasks = [task.replace(data_seed=n) for n in range(2)]
    elements = batches(tasks, sizes.batches, batch_size=sizes.batch_size, split="test", seed=[0, 0])
    rules = np.stack([features["rule"] for features, _ in elements])[:, :, 1]
    outputs = np.stack([model(features)["target"].numpy() for features, _ in elements])[:, :, 1]
    targets = np.stack([target for _, target in elements])[:, :, 1]
    if task.setting == "classification":
        losses = np.logaddexp(0, outputs) - targets * outputs
    else:
        losses = np.abs(outputs - targets).mean(axis=-1)
    for name, chosen in (("frequent", rules == 0), ("rare", rules > 0)):
        np.testing.assert_allclose(scores.rows["loss", name, ""][1], losses[chosen].mean(), rtol=1e-4)
        if task.setting == "classification":
            wrong = (outputs >= 0) != (targets == 1)
            found = scores.rows["error", name, ""][1]
            np.testing.assert_allclose(found, 100 * wrong[chosen].mean(), rtol=1e-4)
    expected = measure_all(scores.activation[""][1], rule_probs=np.array([6, 3, 2]) / 11)
    for name in ("collapse_avg", "collapse_worst", "alignment", "inverse_mutual_information"):
        np.testing.assert_allclose(scores.rows[name, "iid", ""][1], expected[name], atol=1e-6)
    assert sizes.tokens_of(task) == np.ceil(sizes.tokens * 11 / 6), (
        "as many of the rarest as if all were equal"
    )
