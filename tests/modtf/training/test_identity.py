"""A checkpoint from another training is refused before anything is loaded, and kept."""

import json
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest

from modtf import Evaluation, Task, build, train
from modtf.models.own import hash_of_config
from modtf.training import checkpoint_file

SIZES = Evaluation(batches=1, batch_size=4, tokens=8, activation_batch_size=4, conditions=())
TASK = Task(num_rules=3)
MODEL: dict[str, Any] = {"task": TASK, "variant": "top_k", "width": 4, "seed": 0, "router": {"k": 2}}
HOW: dict[str, Any] = {"steps": 4, "batch_size": 4, "evaluations": 2, "evaluation": SIZES, "verbose": False}
HOW |= {"jit_compile": False, "steps_per_execution": 1}


def trained(path, given=None, **changes):
    """A training with its checkpoint in `path`, of a new model unless one is given."""
    model = {name: changes.pop(name, value) for name, value in MODEL.items()}
    options = {"task": model["task"], "checkpoint": path, **HOW, **changes}
    return train(given or build(**model), **options)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The checkpoint of a training that has ended."""
    path = tmp_path_factory.mktemp("trained") / "checkpoint.npz"
    trained(path)
    return path


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"task": TASK.replace(data_seed=1)}, "r3_task0' there and 'mlp_regression_r3_task1' here"),
        ({"task": TASK.replace(setting="classification")}, r"data.tasks\[0\] is 'mlp_regression"),
        ({"seed": 1}, r"data.seeds\[0\] is 0 there and 1 here; model.seeds"),
        ({"variant": "switch", "router": {}}, "model.variant is 'top_k' there and 'switch' here"),
        ({"router": {"k": 1}}, "model.router.k is 2 there and 1 here"),
        ({"width": 5}, "model.width is 4 there and 5 here"),
        ({"learning_rate": 0.5}, "training.learning_rate is 0.0001 there and 0.5 here"),
        ({"steps": 8}, "training.steps is 4 there and 8 here"),
        ({"optimizer": "sgd"}, "training.optimizer is 'adam' there"),
        ({"evaluation": replace(SIZES, batches=2)}, r"callbacks\[0\]\[1\].batches is 1 there and 2 here"),
    ],
)
def test_another_is_refused(path, changes, named):
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"is the checkpoint of another run: .*{named}.* may differ"):
        trained(path, **changes)
    assert path.read_bytes() == before
    assert len(list(path.parent.iterdir())) == 1


def test_where_and_how_it_runs_may_differ(path):
    model = build(**MODEL)
    assert trained(path, model, data="device", steps_per_execution=2, verbose=True, label="again").epoch == []
    with np.load(path) as saved:
        for i, weight in enumerate(model.weights):
            np.testing.assert_array_equal(weight, saved[f"variable_{i}"])


def functional(units, activation="relu"):
    """A user's, whose class says nothing of it."""
    inputs, rule = keras.Input([2], name="inputs"), keras.Input([], dtype="int32", name="rule")
    target = keras.layers.Dense(1)(keras.layers.Dense(units, activation)(inputs))[:, 0]
    return keras.Model({"inputs": inputs, "rule": rule}, {"target": target})


class Own(keras.Model):
    """A user's."""

    def __init__(self, activation=None):
        super().__init__()
        self.dense = keras.layers.Dense(1, activation)

    def call(self, features):
        return {"target": self.dense(features["inputs"])[..., 0]}


class Other(Own):
    """A model of the same shapes."""


class Scaled(Own):
    """A model whose constructor argument no weight shows."""

    def __init__(self, factor, activation=None):
        super().__init__(activation)
        self.factor = factor

    def get_config(self):
        return {"factor": self.factor}


def test_a_users_model_is_known_by_its_name_source_and_shapes(tmp_path):
    path = tmp_path / "checkpoint.npz"
    trained(path, Own())
    assert trained(path, Own()).epoch == []
    with pytest.raises(ValueError, match=r"model.name is 'Own' there and 'Other' here; model.source is"):
        trained(path, Other())
    path = tmp_path / "functional.npz"
    trained(path, functional(2))
    assert trained(path, functional(2)).epoch == []
    with pytest.raises(
        ValueError, match=r"another run: model.config is .*; shapes\[0\]\[1\] is 2 there and 3 here"
    ):
        trained(path, functional(3))


@pytest.mark.parametrize(
    ("make", "one", "other"),
    [
        (lambda how: functional(2, how), "relu", "tanh"),
        (Scaled, 1.0, 2.0),
        (lambda how: Scaled(1.0, how), "relu", "tanh"),
    ],
)
def test_a_users_model_is_known_by_its_config(tmp_path, make, one, other):
    path = tmp_path / "checkpoint.npz"
    trained(path, make(one))
    assert trained(path, make(one)).epoch == []
    with pytest.raises(ValueError, match=r"another run: model.config is '\w+' there and '\w+' here"):
        trained(path, make(other))
    with np.load(path) as saved:
        arrays = dict(saved)
    identity = json.loads(str(arrays["identity"]))
    del identity["model"]["config"]  # as earlier versions wrote it
    checkpoint_file.save(path, {**arrays, "identity": np.array(json.dumps(identity))})
    assert trained(path, make(other)).epoch == []


def test_the_hash_of_a_config_does_not_depend_on_names_or_lines():
    def made(factor):
        inputs = keras.Input([2])
        hidden = keras.layers.Dropout(0.5)(keras.layers.Dense(3)(inputs))
        return keras.Model(inputs, keras.layers.Lambda(lambda x: factor * x)(hidden))

    sequential = [
        keras.Sequential([keras.Input([2]), keras.layers.Dense(3, how)]) for how in ("relu", "tanh")
    ]
    hashes = [hash_of_config(one) for one in (made(2), made(2), *sequential)]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3
