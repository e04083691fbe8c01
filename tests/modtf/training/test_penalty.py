"""A router's penalty: added to each member's own loss, and logged by name per member."""

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from keras import ops

import modtf
from modtf.evaluation.evaluator import Evaluator
from modtf.families import FAMILIES
from modtf.models import Router
from modtf.models.build import build
from modtf.models.routers import ROUTERS, register_router
from modtf.population import Population
from modtf.task import Task
from modtf.training.callbacks.evaluate import EvaluateCallback
from modtf.training.train import train


@pytest.fixture(scope="module", autouse=True)
def uneven():
    """A router with a large penalty, known for the length of this module."""

    @register_router("even_modules")
    class Even(Router):
        needs_scores = True
        penalty_name = "unevenness"

        def __init__(self, setup, *, modules=None, strength=1.0):
            super().__init__(setup, modules=modules)
            self.strength = strength

        def call(self, rule=None, rule_features=None, scores=None):
            return ops.softmax(scores, axis=1)

        def penalty(self, activation):
            """By how much use misses that of the first module; the last token counts twice."""
            use = ops.mean(activation, axis=2) + activation[:, :, -1]
            return self.strength * ops.sum(ops.square(use - use[:, :1]), axis=1)

    yield
    del ROUTERS._objects["even_modules"]


def tasks_of(arch):
    return [Task(arch, num_rules=2, data_seed=i) for i in range(2)]


def by_hand(activation):
    """The penalty of one member's activation [B, (N,) M]."""
    p = activation.reshape(activation.shape[0], -1, activation.shape[-1])  # [B, N, M]
    use = p.mean((0, 1)) + p[-1, -1]
    return np.sum(np.square(use - use[0]))


@pytest.mark.parametrize("arch", FAMILIES)
def test_the_evaluator_finds_it_per_member(arch, batches, small_sizes):
    sizes = replace(small_sizes, conditions=(), draws=1)
    population = Population.of(tasks_of(arch), [0, 1])
    model = build(population, "even_modules", 8, router={"modules": 3})
    model.compile(jit_compile=False)
    scores = Evaluator(model, population, sizes).run()
    steps = -(-sizes.tokens // (sizes.activation_batch_size * population.family.num_training_tokens))
    for i, (task, seed) in enumerate(population.members):
        alone = build(task, "even_modules", 8, seed, router={"modules": 3})
        elements = batches(task, steps, batch_size=sizes.activation_batch_size, split="test")
        expected = np.mean([by_hand(alone(features)["activation"].numpy()) for features, _ in elements])
        np.testing.assert_allclose(scores.rows["unevenness", "iid"][i], expected, rtol=1e-4)
    assert scores.member(0)["unevenness"] == scores.rows["unevenness", "iid"][0]


@pytest.mark.parametrize("arch", FAMILIES if "MODTF_LONG_TESTS" in os.environ else list(FAMILIES)[:1])
def test_members_are_penalised_as_if_alone(arch, small_sizes):
    """And the penalty changes what they become."""
    options: dict[str, Any] = {"batch_size": 8, "evaluations": 1, "learning_rate": 1e-2, "verbose": False}
    options["evaluation"] = replace(small_sizes, conditions=(), draws=1)
    tasks, found = tasks_of(arch), []
    for task, seed in ((tasks, [0, 1]), (tasks[0], 0), (tasks[1], 1)):
        model = build(task, "even_modules", 8, seed)
        history = train(model, task, 4, jit_compile=isinstance(task, list), **options).history
        found.append([v.numpy() for v in model.trainable_variables])
        assert len(history["unevenness"]) == 1
    for together, *alone in zip(*found, strict=True):
        for i in range(2):
            np.testing.assert_allclose(together[i], alone[i][0], rtol=1e-3, atol=1e-5)
    model = build(tasks[0], "even_modules", 8, router={"strength": 0.0})
    train(model, tasks[0], 4, jit_compile=False, **options)
    assert any(not np.allclose(a, v) for a, v in zip(found[1], model.trainable_variables, strict=True))


def test_it_falls_and_is_recorded(small_sizes):
    task = Task(num_rules=2)
    model = build(task, "even_modules", 8, router={"strength": 10.0})
    callback = EvaluateCallback(Evaluator(model, Population.of(task), small_sizes, "validation"))
    history = train(
        model, task, 40, batch_size=32, learning_rate=1e-2, evaluations=4, evaluation=callback, verbose=False
    ).history
    recorded = [float(values[0]) for values in callback.records["unevenness"]]
    np.testing.assert_allclose(recorded[1:], history["unevenness"])
    assert recorded[-1] < 0.5 * recorded[0]
    assert modtf.evaluate(model, task, evaluation=small_sizes)["unevenness"] < 0.5 * recorded[0]
