"""`modtf.train`: it learns, evaluates during training, compiles once, and accepts users' models."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import keras
import numpy as np
import pytest
from fuzzing import BeginsError
from interrupted import Killed
from keras import ops

import modtf
from modtf import Population, Protocol, Task, build, train
from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.scores import stack_scores
from modtf.metrics import activation_measures
from modtf.tasks.families import with_free_rules
from modtf.training.callbacks.evaluate import EvaluateCallback

TASKS = [Task(num_rules=3, data_seed=i) for i in range(2)]
STEPS = 48


@pytest.fixture(scope="module")
def often(small_sizes):
    """A training of eight evaluations: model, callback, history, and how often Python ran the model: once
    eagerly, then once per tracing."""
    model = build(TASKS, "modular", 8, [0, 1])
    calls, original = [], model.call

    def call(features, training=None):
        calls.append(training)
        return original(features, training)

    model.call = call  # type: ignore[method-assign]
    callback = EvaluateCallback(Evaluator(model, Population.of(TASKS), small_sizes, "validation"))
    how: Any = {"batch_size": 32, "learning_rate": 1e-2, "evaluations": 8, "evaluation": callback}
    history = train(model, TASKS, STEPS, verbose=False, **how).history
    return SimpleNamespace(model=model, callback=callback, history=history, calls=len(calls))


def test_it_learns_and_is_traced_once(often):
    assert often.history["loss"][-1] < 0.7 * often.history["loss"][0]
    assert often.history["val_loss"][-1] < 0.9 * often.history["val_loss"][0]
    assert often.calls <= 8


def test_an_evaluation_of_another_model_or_training_is_refused(often, small_sizes):
    how: Any = {"verbose": False, "evaluation": often.callback}
    with pytest.raises(ValueError, match="has scores of an earlier training"):
        train(often.model, TASKS, STEPS, **how)
    with pytest.raises(ValueError, match="measures another model"):
        train(build(TASKS, "modular", 8, [0, 1]), TASKS, STEPS, **how)


def test_history_names_everything(often):
    measures = {measure.name for measure in activation_measures()}
    assert set(often.history) == {"loss", "val_loss"} | measures
    assert all(len(values) == 8 for values in often.history.values())
    assert often.callback.steps == [6 * i for i in range(9)]  # the first before training
    for name, per_member in stack_scores(often.callback.found).named().items():
        if name != "loss_scale2":  # not shown while training
            shown = often.history["val_loss" if name == "loss" else name]
            np.testing.assert_allclose([values.mean() for values in per_member[1:]], shown)
        assert all(values.shape == (2,) for values in per_member)


@pytest.mark.slow
def test_evaluating_less_often_does_not_change_the_training(often, small_sizes):
    seldom = build(TASKS, "modular", 8, [0, 1])
    how: Any = {"batch_size": 32, "learning_rate": 1e-2, "evaluations": 2, "evaluation": small_sizes}
    train(seldom, TASKS, STEPS, verbose=False, **how)
    np.testing.assert_equal(often.model.get_weights(), seldom.get_weights())


class OwnModel(keras.Model):
    """A user's own model of an mlp task, which knows nothing of modtf and has no weights before its call."""

    def __init__(self, num_rules, num_modules):
        super().__init__()
        self.num_rules = num_rules
        self.hidden = keras.layers.Dense(8, activation="relu")
        self.experts = keras.layers.Dense(num_modules)
        self.gate = keras.layers.Dense(num_modules, activation="softmax")

    def call(self, features):
        rule = ops.one_hot(features["rule"], self.num_rules)
        x = ops.concatenate([features["inputs"], rule], axis=-1)
        activation = self.gate(x)
        return {"target": ops.sum(activation * self.experts(self.hidden(x)), -1), "activation": activation}


def test_own_models_get_every_metric(small_sizes):
    task = Task(setting="classification", num_rules=3)
    model = OwnModel(3, 3)
    options = {"batch_size": 16, "evaluations": 2, "evaluation": small_sizes, "verbose": False}
    history = train(model, task, 4, **options).history
    measures = {measure.name for measure in activation_measures()}
    assert set(history) == {"loss", "val_loss", "val_error"} | measures
    scores = modtf.evaluate(model, task, evaluation=small_sizes)
    assert set(scores) == {"loss", "error", "loss_scale2", "error_scale2"} | measures
    assert all(np.isfinite(value) for value in scores.values())


@pytest.fixture
def stop(monkeypatch):
    """stop(name) -> a mock in the place of what `fit` calls by that name, at which training ends."""

    def put(name):
        mock = Mock(side_effect=BeginsError)
        monkeypatch.setattr(f"modtf.training.fit.{name}", mock)
        return mock

    return put


@pytest.mark.parametrize("arch", with_free_rules())
def test_the_clip_rule_is_the_published_one(arch, stop):
    compiled = stop("compile_model")
    options: list[dict] = [{}, {"clipnorm": None}, {"clipnorm": 0.5}]
    for given in options:
        with pytest.raises(BeginsError):
            train(build(Task(arch), width=8), Task(arch), 2, verbose=False, **given)
    published = Protocol.published(Task(arch)).training.clipnorm
    assert [training.clipnorm for (_, _, training), _ in compiled.call_args_list] == [published, None, 0.5]


def test_seeds_are_the_models_own_unless_given(stop):
    streamed, model = stop("training_batches"), build(TASKS, "modular", 4, [5, 6])
    given: list = [(TASKS, None), (TASKS, [1, 2]), (Population.of(TASKS, [3, 4]), None)]
    for task, seed in given:
        with pytest.raises(BeginsError):
            train(model, task, 2, seed=seed, verbose=False)
    assert [call.args[1].seeds for call in streamed.call_args_list] == [(5, 6), (1, 2), (3, 4)]


@pytest.mark.parametrize("own", [False, True])
def test_an_evaluation_reads_the_training_data_of_the_training(own, small_sizes):
    task, sizes = Task(num_rules=3, num_train=32), replace(small_sizes, conditions=None)
    model = OwnModel(3, 3) if own else build(task, "modular", 4, 0)
    how: Any = {"batch_size": 16, "evaluations": 1, "evaluation": small_sizes, "verbose": False}
    train(model, task, 2, seed=5, jit_compile=False, **how)
    given: list = [task, *(Population.of(task, n) for n in (5, 0))]
    scores, *others = (modtf.evaluate(model, one, evaluation=sizes) for one in given)
    assert [other["loss_train_data"] == scores["loss_train_data"] for other in others] == [True, False]


@pytest.mark.slow
def test_an_interrupted_training_resumes(tmp_path, small_sizes):
    """A user's model, which has no weights when the checkpoint is read."""
    weights, task = [], Task(num_rules=3)
    for name in ("whole", "interrupted"):
        options = {"batch_size": 16, "evaluations": 4, "evaluation": small_sizes, "learning_rate": 0.01}
        options |= {"jit_compile": False, "steps_per_execution": 2, "verbose": False}
        options["checkpoint"] = tmp_path / f"{name}.npz"
        keras.utils.set_random_seed(0)
        model = OwnModel(3, 3)
        if name == "interrupted":
            with pytest.raises(KeyboardInterrupt):
                train(model, task, 8, callbacks=[Killed(epoch=2)], **options)
            model = OwnModel(3, 3)
        history = train(model, task, 8, **options)
        assert history.epoch == ([0, 1, 2, 3] if name == "whole" else [2, 3])
        weights.append(model.get_weights())
    np.testing.assert_equal(*weights)
    again = OwnModel(3, 3)  # a training that has ended is found ended
    assert train(again, task, 8, **options).epoch == []
    np.testing.assert_array_equal(again.get_weights()[0], weights[0][0])
