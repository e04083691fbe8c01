"""Evaluations of tasks with the options of `modtf.tasks.families.varied`, against NumPy."""

from dataclasses import replace

import numpy as np
import pytest

from modtf import Population, Task
from modtf.evaluation.evaluator import Evaluator
from modtf.metrics import MEASURES, measure_all
from modtf.metrics.registry import BESIDE
from modtf.models.build import build
from modtf.tasks.families.varied import irreducible as irreducible_of


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


def test_training_data_noise_and_what_stands_beside(small_sizes, batches):
    """The gap is that to the training examples of each member; the irreducible loss is exact."""
    task = Task("mlp", num_rules=3, num_train=32, noise=0.5)
    model, scores = evaluated(task, replace(small_sizes, batches=2, batch_size=16))
    elements = batches([task, task.replace(data_seed=1)], 2, batch_size=16, seed=[0, 1])  # an epoch
    found = [np.abs(model(features)["target"].numpy() - target) for features, target in elements]
    loss = np.mean(found, axis=(0, 1))
    np.testing.assert_allclose(scores.rows["loss", "train_data", ""], loss, rtol=1e-4)
    gap = scores.rows["loss", "iid", ""] - loss
    np.testing.assert_allclose(scores.rows["loss_gap", "iid", ""], gap, atol=1e-5)
    noise = np.random.RandomState(0).randn(10**6) * 0.5
    assert {name for name, *_ in scores.rows} - set(MEASURES) <= set(BESIDE)
    irreducible = scores.rows["irreducible_loss", "iid", ""]
    np.testing.assert_allclose(irreducible, [np.abs(noise).mean()] * 2, rtol=5e-3)
    assert (scores.rows["loss", "clean", ""] < scores.rows["loss", "iid", ""]).all()
    flips = Task(setting="classification", noise=0.1)
    logit, entropy = np.log(9), -0.1 * np.log(0.1) - 0.9 * np.log(0.9)
    assert irreducible_of(flips, "loss") == pytest.approx(entropy)
    assert 0.9 * np.log1p(np.exp(-logit)) + 0.1 * np.log1p(np.exp(logit)) == pytest.approx(entropy)
    assert irreducible_of(flips, "error") == 0.1
