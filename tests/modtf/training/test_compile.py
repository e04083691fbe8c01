"""One function compiles a model for training, with any backend; see tests/test_without_tensorflow.py."""

from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from modtf import Population, Task, Training, build
from modtf.evaluation.accumulate import Outputs
from modtf.evaluation.elementwise import loss_of
from modtf.evaluation.programs import compiled_of
from modtf.tasks.condition import SETTINGS
from modtf.training.compile import SettingLoss, compile_model
from modtf.training.optimizer import MemberSGD

POPULATION = Population.of([Task(num_rules=2, data_seed=i) for i in range(2)], [0, 1])


def test_it_takes_what_training_says():
    model = build(POPULATION, "modular", 4, dtype="float64")
    training = Training(steps=10, learning_rate=0.5, clipnorm=2.0)
    compile_model(model, POPULATION, training, jit_compile=False)
    optimizer = model.optimizer
    assert (float(optimizer.learning_rate), optimizer.num_members, optimizer.member_clipnorm) == (0.5, 2, 2.0)
    assert (model.jit_compile, model.steps_per_execution) == (False, 100)
    assert (model.loss["target"].setting, model.loss["target"].dtype) == ("regression", "float64")
    compile_model(model, POPULATION, replace(training, optimizer="sgd", schedule="cosine"))
    assert isinstance(model.optimizer, MemberSGD)
    model.compiled_by_xla = False  # as architectures say whose convolutions a CPU runs faster without
    own = keras.losses.MeanSquaredError()
    compile_model(model, POPULATION, training, loss=own)
    assert (model.jit_compile, model.loss) == (False, {"target": own})


@pytest.mark.xla
def test_the_environment_turns_xla_off(monkeypatch):
    """Training and evaluation: what evaluates asks the same function."""
    models = [build(POPULATION, "modular", 4) for _ in range(2)]
    for model, value in zip(models, "10", strict=True):
        monkeypatch.setenv("MODTF_XLA", value)
        compile_model(model, POPULATION, Training(steps=10))
    assert [model.jit_compile for model in models] == [True, False]
    assert not Outputs(models[0], {}).jit_compile


def test_compiled_again_the_optimizer_begins_anew_and_programs_stay():
    model, training = build(POPULATION, "modular", 8), Training(steps=1, learning_rate=1e-2)
    compile_model(model, POPULATION, training)
    compiled, optimizer = compiled_of(model), model.optimizer
    optimizer.build(model.trainable_variables)
    for variable in optimizer.variables:
        variable.assign(ops.ones_like(variable))
    compile_model(model, POPULATION, replace(training, learning_rate=1e-3), steps_per_execution=1)
    assert (compiled_of(model), model.optimizer, model.steps_per_execution) == (compiled, optimizer, 1)
    state = {variable.path.split("/")[-1]: variable.numpy() for variable in optimizer.variables}
    np.testing.assert_allclose(state.pop("learning_rate"), 1e-3)
    assert all((values == 0).all() for values in state.values())
    others: list[dict[str, Any]] = [{"clipnorm": 1.0}, {"weight_decay": 0.1}, {"schedule": "cosine"}]
    for other in (*others, {"schedule": "cosine", "steps": 2}):
        compile_model(model, POPULATION, replace(training, **other))
        assert compiled_of(model) not in (None, compiled)
        compiled = compiled_of(model)
    losses = {"target": SettingLoss("regression"), "activation": keras.losses.MeanSquaredError()}
    for given, kept in ((losses, False), (dict(losses), True), ({**losses, "target": "mse"}, False)):
        compile_model(model, POPULATION, training, loss=given)
        assert (compiled_of(model) is compiled) == kept
        compiled = compiled_of(model)
    model.compile("sgd", "mse")
    assert compiled_of(model) is None


@pytest.mark.parametrize("setting", SETTINGS)
def test_loss_is_the_mean_over_everything_and_is_saved_by_name(setting):
    rng = np.random.default_rng(0)
    target, output = (rng.random((4, 3)) < 0.5).astype(np.float32), rng.normal(size=(4, 3, 2))
    output = output if setting == "categorical" else output[..., 0]
    loss = SettingLoss(setting, dtype="float64")
    assert float(loss(target, output)) == pytest.approx(np.mean(loss_of(setting)(target, output)))
    copy = keras.losses.deserialize(keras.losses.serialize(loss))
    assert isinstance(copy, SettingLoss)
    assert copy.setting == setting
