"""`modtf.evaluate` against NumPy on the same streams."""

from dataclasses import replace

import numpy as np
import pytest

import modtf
from modtf.cell import Evaluation
from modtf.evaluation.evaluator import Evaluator
from modtf.metrics import activation_measures, measure_all, rule_distributions
from modtf.models.build import build
from modtf.task import Task

MEASURES = {measure.name for measure in activation_measures()}
TASK = Task(arch="rnn", setting="classification", num_rules=2)


@pytest.fixture(scope="module")
def population(small_sizes):
    """A population of two rnn members, its evaluator, which is used twice, and its scores."""
    tasks = [TASK, replace(TASK, data_seed=1)]
    model = build(tasks, "modular", 4, [0, 1])
    model.compile(jit_compile=False)
    calls, original = [], model.call

    def call(features):
        calls.append(features["inputs"].shape)
        return original(features)

    model.call = call  # type: ignore[method-assign]
    evaluator = Evaluator(model, tasks, small_sizes)
    return model, evaluator, evaluator.run(), calls


@pytest.fixture(scope="module")
def member():
    return build(TASK, "modular", 4, 0)


@pytest.mark.parametrize(("scale", "seq_len"), [(1.0, 10), (2.0, 10), (1.0, 3), (2.0, 3)])
def test_performance(population, member, batches, small_sizes, scale, seq_len):
    _, _, scores, _ = population
    elements = batches(
        TASK,
        small_sizes.batches,
        batch_size=small_sizes.batch_size,
        split="test",
        scale=scale,
        seq_len=seq_len,
    )
    logits = np.stack([member(features)["target"].numpy() for features, _ in elements]).astype(np.float64)
    labels = np.stack([target for _, target in elements])
    loss = np.mean(np.logaddexp(0, logits) - labels * logits)
    error = 100 * np.mean((logits >= 0) != (labels == 1))
    np.testing.assert_allclose(scores.rows["loss", scale, seq_len][0], loss, rtol=1e-4)
    np.testing.assert_allclose(scores.rows["error", scale, seq_len][0], error, rtol=1e-4)


def test_activation_and_measures(population, member, batches, numpy_activation, small_sizes):
    """Tokens of a sequence depend on each other: use under other rule probabilities is sampled."""
    _, _, scores, _ = population
    steps = -(-small_sizes.tokens // (small_sizes.batch_size * 10))
    options = {"batch_size": small_sizes.batch_size, "split": "test"}
    A = numpy_activation(member, batches(TASK, steps, **options), 2)
    np.testing.assert_allclose(scores.activation[0], A, atol=1e-5)
    draws = small_sizes.draws
    elements = batches(TASK, draws, rule_probs=rule_distributions(2, draws), **options)  # one batch a draw
    usage = [member(features)["activation"].numpy().mean((0, 1)) for features, _ in elements]
    for name, value in measure_all(A, usage=np.stack(usage)).items():
        np.testing.assert_allclose(scores.rows[name, 1.0, 10][0], value, atol=1e-4, err_msg=name)


def test_again_is_the_same_and_traces_nothing(population):
    _, evaluator, scores, calls = population
    count = len(calls)
    assert count <= 6  # eagerly, and per length
    again = evaluator.run()
    assert len(calls) == count
    assert again.rows.keys() == scores.rows.keys()
    for key, values in scores.rows.items():
        np.testing.assert_array_equal(again.rows[key], values)


def test_names(population):
    _, _, scores, _ = population
    lengths, scales = ("", "_len3"), ("", "_scale2")
    performance = {f"{m}{n}{s}" for m in ("loss", "error") for n in lengths for s in scales}
    assert set(scores.member(1)) == performance | MEASURES


def test_use_is_exact_where_p_depends_on_the_token_alone(small_sizes):
    for task, variant in ((Task(), "modular"), (TASK, "modular_op"), (TASK, "gt_modular")):
        assert Evaluator(build(task, variant, 4), task, small_sizes).exact_usage
    assert not Evaluator(build(TASK, "modular", 4), TASK, small_sizes).exact_usage


def test_the_oracle_is_perfect_and_the_monolithic_has_no_measures(small_sizes):
    scores = modtf.evaluate(build(Task(), "gt_modular", 4), Task(), sizes=small_sizes)
    assert set(scores) == {"loss", "loss_scale2"} | MEASURES
    assert all(abs(scores[name]) < 1e-6 for name in MEASURES)
    scores = modtf.evaluate(build([Task()], "monolithic", 4, [0]), [Task()], sizes=small_sizes)
    assert len(scores) == 1
    assert all(np.isnan(scores[0][name]) for name in MEASURES)


def test_splits_and_seeds_are_other_data(small_sizes):
    model = build(Task(), "modular", 4)
    sizes = replace(small_sizes, scales=(1.0,))
    losses = [
        modtf.evaluate(model, Task(), sizes=sizes, **options)["loss"]
        for options in ({}, {"split": "validation"}, {"seed": 1}, {})
    ]
    assert len(set(losses)) == 3
    assert losses[0] == losses[3]
    with pytest.raises(ValueError, match="split='tests' is not known"):
        modtf.evaluate(model, Task(), sizes=Evaluation(), split="tests")


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            Task(num_rules=3),
            "built for mlp_regression_r2_task0, received mlp_regression_r3_task0. Give the task",
        ),
        (
            [Task()],
            "built for mlp_regression_r2_task0, received a list of 1 tasks like mlp_regression_r2_task0",
        ),
        (Task("rnn"), "received rnn_regression_r2_task0"),
    ],
)
def test_a_task_of_another_shape_is_refused(task, message):
    with pytest.raises(ValueError, match=message):
        modtf.evaluate(build(Task(), "modular", 4), task)
    with pytest.raises(ValueError, match=message):
        modtf.train(build(Task(), "modular", 4), task, 1, verbose=False)
