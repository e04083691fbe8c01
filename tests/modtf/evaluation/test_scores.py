"""Losses and errors against NumPy; means of scores, and scores as arrays."""

from dataclasses import replace

import numpy as np
import pytest

from modtf import Evaluation, Population, Task
from modtf.evaluation.elementwise import (
    absolute_error,
    categorical_cross_entropy,
    cross_entropy,
    error_of,
    loss_of,
    misclassified,
    wrong_class,
)
from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.scores import Scores, from_arrays, mean_scores, to_arrays
from modtf.metrics import MEASURES, measure_all
from modtf.metrics.registry import BESIDE
from modtf.models.build import build
from modtf.tasks.condition import SETTINGS
from modtf.tasks.families import FAMILIES
from modtf.tasks.families.varied import irreducible as irreducible_of


def test_absolute_error():
    np.testing.assert_array_equal(absolute_error(np.array([1.0, -2.0]), np.array([3.0, -2.5])), [2.0, 0.5])


def test_cross_entropy():
    label, logit = np.array([0.0, 1.0, 0.0, 1.0]), np.array([-0.7, 2.0, 3.0, -0.1])
    p = 1 / (1 + np.exp(-logit))
    expected = -(label * np.log(p) + (1 - label) * np.log(1 - p))
    np.testing.assert_allclose(cross_entropy(label, logit), expected, rtol=1e-12)


def test_cross_entropy_of_large_logits_is_finite():
    losses = cross_entropy(np.array([0.0, 1.0, 1.0]), np.array([1e4, 1e4, -1e4]))
    np.testing.assert_allclose(losses, [1e4, 0.0, 1e4])


def test_misclassified():
    label, logit = np.array([0.0, 1.0, 0.0, 1.0, 1.0]), np.array([-1.0, 1.0, 1.0, -1.0, 0.0])
    np.testing.assert_array_equal(misclassified(label, logit), [0, 0, 1, 1, 0])  # y >= 0 is label 1


def test_categorical():
    """Logits of three classes; the labels come as numbers of any kind."""
    logits = np.array([[[2.0, 0.0, -1.0], [0.5, 1.0, 1e4]], [[-3.0, 0.1, 0.2], [1.0, 7.0, 2.0]]])
    label = np.array([[0, 1], [1, 1]])
    shifted = logits - logits.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    expected = -np.take_along_axis(log_p, label[..., None], -1)[..., 0]
    for labels in (label, label.astype(np.float32)):
        np.testing.assert_allclose(categorical_cross_entropy(labels, logits), expected, rtol=1e-12)
        np.testing.assert_array_equal(wrong_class(labels, logits), [[0, 1], [1, 0]])


def test_every_setting_of_a_family_has_a_loss_and_where_it_is_compared_by_it_an_error():
    for setting in {setting for family in FAMILIES.values() for setting in family.settings} | {*SETTINGS}:
        assert callable(loss_of(setting))
        assert (error_of(setting) is None) == (SETTINGS[setting].performance == "loss")


def scores(number: float) -> Scores:
    rows = {
        ("loss", "iid", ""): np.array([number, 1.0]),
        ("loss", "scale2", ""): np.array([-number, np.nan]),
        ("alignment", "iid", "root"): np.zeros(2),
    }
    return Scores(rows, {"": np.full((2, 3, 4), number), "root": np.full((2, 1, 2), 0.5)})


def test_means():
    mean = mean_scores([scores(1.0), scores(2.0)])
    assert mean.rows["loss", "iid", ""].tolist() == [1.5, 1.0]
    np.testing.assert_array_equal(mean.rows["loss", "scale2", ""], [-1.5, np.nan])
    assert (mean.activation[""] == 1.5).all()
    assert mean.activation["root"].shape == (2, 1, 2)


def test_names():
    assert scores(2.0).member(0) == {"loss": 2.0, "loss_scale2": -2.0, "alignment_root": 0.0}


def test_arrays_are_the_scores_again():
    before = [scores(1.0), scores(2.0)]
    after = from_arrays({**to_arrays(before), "steps": np.arange(2)})
    read, written = ([(one.rows, one.activation) for one in some] for some in (after, before))
    np.testing.assert_equal(read, written)
    assert from_arrays(to_arrays([])) == []


def evaluated(task, sizes, variant="modular", members=2):
    """Return a model of a population, and its scores by row."""
    population = Population.of([task.replace(data_seed=n) for n in range(members)], [*range(members)])
    model = build(population, variant, 4)
    return model, Evaluator(model, population, sizes).run()


@pytest.mark.parametrize(
    "options",
    [
        {"arch": "mlp", "setting": "classification"},
        pytest.param({"arch": "rnn", "target": "state"}, marks=pytest.mark.slow),
    ],
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
    missing = 512 * np.exp(-Evaluation(tokens=1).tokens_of(Task(num_rules=512)) / 512)
    assert missing == pytest.approx(1e-6, rel=0.01), "probability that a rule does not occur"


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
