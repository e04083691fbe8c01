"""Routers in training: a penalty in each member's own loss, and what a router keeps."""

from dataclasses import replace
from typing import Any

import numpy as np
import plugin_routers
import pytest
from registering import forgotten

from modtf import Evaluation, Population, Task, build, train
from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.scores import stack_scores
from modtf.models.routers import ROUTERS, register_router
from modtf.training.callbacks.evaluate import EvaluateCallback

SIZES = Evaluation(batches=1, batch_size=4, tokens=40, draws=1, tokens_per_draw=40, conditions=())
HOW: dict[str, Any] = {"batch_size": 8, "evaluations": 2, "learning_rate": 1e-2, "verbose": False}
TASKS = [Task(num_rules=3, data_seed=i) for i in range(2)]


@pytest.fixture(scope="module", autouse=True)
def even():
    """A router with a penalty, known for the length of this module."""
    with forgotten(ROUTERS):
        register_router("even_modules")(plugin_routers.Even)
        yield


def trained(variant, task, seed, **options):
    """A model after four steps of 8 examples; compiled where members take turns."""
    model = build(task, variant, 4, seed, router=options)
    train(model, task, 4, jit_compile=isinstance(task, list), evaluation=SIZES, **HOW)
    return model


def unevenness(outputs):
    """The penalty of one member, by its activation [B, (N,) M]."""
    p = outputs["activation"].numpy()
    return 0.5 * np.sum(np.square(p.reshape(-1, p.shape[-1]).mean(0) - 1 / p.shape[-1]))


def price(outputs):
    return 0.5 * np.mean(np.log(np.exp(outputs["scores"].numpy()).sum(axis=-1)) ** 2)


@pytest.mark.parametrize(
    ("variant", "name", "by_hand"),
    [("even_modules", "unevenness", unevenness), ("z_loss", "router_z", price)],
)
def test_the_evaluator_finds_a_penalty_per_member(arch, variant, name, by_hand, batches):
    population = Population.of([Task(arch, num_rules=3, data_seed=i) for i in range(2)], [0, 1])
    router = {"modules": 2, "strength": 0.5}
    model = build(population, variant, 4, router=router)
    model.compile(jit_compile=False)
    scores = Evaluator(model, population, SIZES).run()
    steps = -(-SIZES.tokens // (SIZES.activation_batch_size * population.family.num_tokens(population.task)))
    for i, (task, seed) in enumerate(population.members):
        alone = build(task, variant, 4, seed, router=router)
        elements = batches(task, steps, batch_size=SIZES.activation_batch_size, split="test")
        expected = np.mean([by_hand(alone(features)) for features, _ in elements])
        np.testing.assert_allclose(scores.member(i)[name], expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("variant", "options"),
    [
        pytest.param("gumbel", {}, marks=pytest.mark.slow),
        pytest.param("bias_balanced", {"rate": 0.125}, marks=pytest.mark.slow),
        pytest.param("even_modules", {"strength": 5.0}, marks=pytest.mark.slow),
    ],
)
def test_a_member_of_a_compiled_population_is_as_alone(variant, options):
    """On a CPU its members take turns: each has its own penalty, key, step and bias."""
    together, alone = trained(variant, TASKS, [0, 5], **options), trained(variant, TASKS[1], 5, **options)
    for both, single in zip(together.weights, alone.weights, strict=True):
        np.testing.assert_allclose(both[1], single[0], rtol=1e-3, atol=1e-5, err_msg=both.path)
    kept = {variable.name: variable.numpy() for variable in together.router.kept}
    if "step" in kept:
        np.testing.assert_array_equal(kept["step"], [4, 4])
    if "bias" in kept:  # multiples of the rate
        assert np.all(kept["bias"] % 0.125 == 0)
        assert np.any(kept["bias"] != 0)
        assert np.abs(kept["bias"]).max() <= 4 * 0.125


def test_a_penalty_falls_and_is_recorded(small_sizes):
    task = Task(num_rules=2)
    model = build(task, "even_modules", 8, router={"strength": 100.0})
    sizes = replace(small_sizes, conditions=())
    callback = EvaluateCallback(Evaluator(model, Population.of(task), sizes, "validation"))
    history = train(model, task, 40, evaluation=callback, jit_compile=False, **HOW).history
    recorded = stack_scores(callback.found).named()["unevenness"][:, 0]
    np.testing.assert_allclose(recorded[1:], history["unevenness"])
    assert recorded[-1] < 0.5 * recorded[0]


def test_evaluation_changes_nothing_and_draws_nothing():
    model = trained("gumbel", TASKS[0], 0)
    before = [v.numpy() for v in model.weights]
    evaluator = Evaluator(model, Population.of(TASKS[0]), SIZES)
    first, second = evaluator.run(), evaluator.run()
    np.testing.assert_array_equal(first.activation[""], second.activation[""])
    np.testing.assert_equal([v.numpy() for v in model.weights], before)
    features = {"inputs": np.ones([20, 2], "float32"), "rule": np.zeros([20], "int32")}
    assert len(np.unique(model(features)["activation"], axis=0)) == 1
    assert len(np.unique(model(features, training=True)["activation"], axis=0)) > 1


def test_a_choice_among_the_batch_is_sampled():
    """Use under another mix of rules does not follow from the activation matrix."""
    model = build(TASKS[0], "expert_choice", 4)
    evaluator = Evaluator(model, Population.of(TASKS[0]), SIZES)
    assert not evaluator.exact_usage
    assert np.isfinite(evaluator.run().rows["adaptation", "iid", ""]).all()
