"""One function compiles a model for training, with any backend, and needs no TensorFlow."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from keras import ops

from modtf.families import FAMILIES
from modtf.models.build import build
from modtf.population import Population
from modtf.protocol import Training
from modtf.task import Task
from modtf.training.compile import Compilation, compile_model

WITHOUT_TENSORFLOW = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "tensorflow":
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Refuse())
import numpy as np
import modtf
from modtf.training.compile import compile_model

population = modtf.Population.of([modtf.Task("ARCH", num_rules=2, data_seed=i) for i in range(2)])
model = modtf.build(population, "modular", 8)
protocol = modtf.Protocol.published(population.task).replace(learning_rate=1e-2)
compile_model(model, population, protocol.training, steps_per_execution=1)
family, rng = population.family, np.random.default_rng(0)
tokens = [family.num_training_tokens] if family.is_sequence else []
inputs = rng.standard_normal([16, 2, *tokens, population.task.token_width]).astype("float32")
features = {"inputs": inputs, "rule": rng.integers(0, 2, [16, 2, *tokens]).astype("int32")}
target = inputs.mean(-1)
losses = [float(model.train_on_batch(features, {"target": target})) for _ in range(30)]
assert losses[-1] < losses[0], losses
assert "tensorflow" not in sys.modules
"""


@pytest.mark.parametrize("arch", FAMILIES)
def test_a_step_on_arrays_without_tensorflow(arch):
    pytest.importorskip("jax")
    code, environment = WITHOUT_TENSORFLOW.replace("ARCH", arch), {**os.environ, "KERAS_BACKEND": "jax"}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]


def test_it_takes_what_training_says():
    population = Population.of([Task(), Task()], [0, 1])
    model = build(population, "modular", 4, dtype="float64")
    compile_model(model, population, Training(steps=10, learning_rate=0.5, clipnorm=2.0), jit_compile=False)
    optimizer = model.optimizer
    assert (float(optimizer.learning_rate), optimizer.num_members, optimizer.member_clipnorm) == (0.5, 2, 2.0)
    assert (model.jit_compile, model.steps_per_execution) == (False, 100)
    assert model.loss["target"].setting == "regression"
    assert model.loss["target"].dtype == "float64"


def test_compiled_again_the_optimizer_begins_anew_and_programs_stay():
    population = Population.of([Task(num_rules=2, data_seed=i) for i in range(2)])
    model = build(population, "modular", 8)
    training = Training(steps=1, learning_rate=1e-2)
    compile_model(model, population, training)
    compilation, optimizer = Compilation.of(model), model.optimizer
    optimizer.build(model.trainable_variables)
    for variable in optimizer.variables:
        variable.assign(ops.ones_like(variable))
    compile_model(model, population, replace(training, learning_rate=1e-3), steps_per_execution=1)
    assert (Compilation.of(model), model.optimizer, model.steps_per_execution) == (compilation, optimizer, 1)
    state = {variable.path.split("/")[-1]: variable.numpy() for variable in optimizer.variables}
    np.testing.assert_allclose(state.pop("learning_rate"), 1e-3)
    assert all((values == 0).all() for values in state.values())
    compile_model(model, population, replace(training, clipnorm=1.0))
    assert Compilation.of(model) is not compilation
    model.compile("sgd", "mse")
    assert Compilation.of(model) is None
