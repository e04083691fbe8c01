"""Inputs and outputs of every model, its activation and first weights, and saving."""

import keras
import numpy as np
import pytest
from keras import ops
from model_checks import check_members, depends_only_on_rule, outputs_of
from processes import succeeds
from registering import forgotten

import modtf
from modtf import Task, convert, register_router, stream
from modtf.models import Router
from modtf.models.architectures.sizes import least_parameters
from modtf.models.build import build
from modtf.models.routers import ROUTERS

WIDTH = 5

FRESH = """
import sys
import numpy as np
import modtf
assert "keras" not in sys.modules
for name in sys.argv[1:]:
    model = modtf.load_model(name + ".keras")
    saved = dict(np.load(name + ".npz"))
    outputs = model({key: saved[key] for key in ("inputs", "rule")})
    for key in ("target", "activation"):
        np.testing.assert_array_equal(outputs[key], saved[key])
print("same")
"""


def round_trip(model, features, path):
    """Save and load a model with changed weights, compare both, and return the loaded model."""
    for variable in model.trainable_variables:
        variable.assign(variable + 0.25)
    model.save(path)
    loaded = keras.saving.load_model(path)
    assert type(loaded) is type(model)
    assert loaded.get_config() == model.get_config()
    np.testing.assert_equal(outputs_of(loaded, features), outputs_of(model, features))
    return loaded


def test_a_population_and_its_members(kind, variant, random_batch, tmp_path):
    (task, options), (name, router) = kind, variant
    model = build([task] * 2, name, WIDTH, [0, 7], dtype="float64", router=router, **options)
    alone = build(task, name, WIDTH, 7, dtype="float64", router=router, **options)
    if router:
        assert model.num_modules == router["modules"] != task.num_rules
    for seq_len in (4, 6) if task.is_sequence else (1,):
        features, target = random_batch([task] * 2, batch=16, seq_len=seq_len)
        outputs = check_members(model, alone, features)
        assert set(outputs) == {"target", "activation"}
        assert outputs["target"].shape == target.shape
    # p depends only on the rule if the router promises that; the oracle's p is the rule itself
    assert depends_only_on_rule(model, features) == model.router.depends_only_on_rule
    if name == "gt_modular":
        np.testing.assert_array_equal(outputs["activation"], np.eye(task.num_rules)[features["rule"]])
    # initial weights depend on the seed, not on the other members; counts are for one member
    first = model.some_members(0, 1)
    assert (first.num_members, first.seeds, first.num_modules) == (1, (0,), model.num_modules)
    variables = (each.trainable_variables for each in (model, alone, first))
    for both, second, single in zip(*variables, strict=True):
        assert both.path == second.path
        np.testing.assert_array_equal(both.numpy(), np.concatenate([single.numpy(), second.numpy()]))
        assert not np.any(both.numpy()[0] == both.numpy()[1])
    assert alone.num_parameters == model.num_parameters == alone.count_params() == model.count_params() / 2
    assert least_parameters(task.family.architecture, WIDTH) < alone.num_parameters
    round_trip(model, features, tmp_path / "model.keras")


def test_variants_start_alike(kind):
    """Weights of one name have the same values in all variants: uniform in +-1/sqrt(fan_in)."""
    task, options = kind
    modular, oracle = (build(task, variant, 16, **options) for variant in ("modular", "gt_modular"))
    values = {v.path: v.numpy() for v in modular.trainable_variables}
    assert len(oracle.trainable_variables) < len(values)
    for variable in oracle.trainable_variables:
        np.testing.assert_array_equal(variable, values[variable.path])
    first = modular.layers[0].first.kernel.numpy()
    bound = first.shape[-1] ** -0.5
    assert 0.9 * bound < np.abs(first).max() <= bound


def test_a_router_of_ones_own_is_read_back(arch, plugins, random_batch, tmp_path):
    task = modtf.Task(arch, num_rules=3)
    router = {"modules": 6, "strength": 3, "temperature": 0.5}
    model = build([task] * 2, "plugin_even", WIDTH, [3, 4], router=router)
    loaded = round_trip(model, random_batch([task] * 2, batch=3)[0], tmp_path / "model.keras")
    assert (loaded.router.strength, loaded.router.temperature, loaded.num_modules) == (3, 0.5, 6)


def test_a_fresh_process_loads_them(random_batch, tmp_path):
    names = []
    for arch, dtype in (("mlp", "float64"), ("mha", None), ("rnn", None)):
        task = modtf.Task(arch, num_rules=3)
        features = {name: value[:, 0] for name, value in random_batch([task], batch=3)[0].items()}
        names.append(str(tmp_path / arch))
        loaded = round_trip(build(task, "modular", WIDTH, 3, dtype=dtype), features, f"{names[-1]}.keras")
        assert loaded.trainable_variables[0].dtype == (dtype or "float32")
        np.savez(f"{names[-1]}.npz", **features, **outputs_of(loaded, features))
    assert succeeds("-c", FRESH, *names) == "same\n"


@pytest.mark.parametrize("arch", ["mlp", "mha", "rnn"])
def test_only_the_oracle_routes_by_a_hidden_rule(arch):
    task = Task(arch, num_rules=3, hidden=1)
    features, _ = next(iter(stream(task, 6)))
    other = {**features, "rule": (features["rule"] + 1) % 3}
    for variant in ("monolithic", "modular"):
        model = build(task, variant, 8)
        for name, values in model(features).items():
            np.testing.assert_array_equal(values, model(other)[name])
        assert model.num_parameters == build(task.replace(hidden=0), variant, 8).num_parameters
    oracle = build(task, "gt_modular", 8)
    rule = features["rule"].numpy()
    np.testing.assert_array_equal(oracle(features)["activation"], np.eye(3)[rule])
    assert np.abs(oracle(features)["target"] - oracle(other)["target"]).max() > 1e-3
    with pytest.raises(ValueError, match="variant='modular_op' routes by the rule, which hidden=1 withholds"):
        build(task, "modular_op", 8)
    with pytest.raises(ValueError, match="hidden=1"):
        convert(oracle, "modular")


class ReadsFeatures(Router):
    """A router that adds the features of the rule to the modules' scores."""

    needs_scores = True

    def call(self, rule=None, rule_features=None, scores=None):
        numbers = ops.arange(1, 1 + rule_features.shape[1], dtype=rule_features.dtype)[:, None]
        value = ops.sum(rule_features * numbers, axis=1, keepdims=True)
        return ops.softmax(scores + value * ops.arange(self.num_modules, dtype=value.dtype)[:, None], axis=1)


@pytest.mark.parametrize("cell", ["lstm", "simple"])
@pytest.mark.parametrize("hidden", [0, 1])
def test_the_features_in_a_recurrence_hide_the_rule(cell, hidden):
    task = Task("rnn", num_rules=3, hidden=hidden)
    features, _ = next(iter(stream(task, 6)))
    other = {**features, "rule": (features["rule"] + 1) % 3}
    with forgotten(ROUTERS):
        register_router("reads_features")(ReadsFeatures)
        model = build(task, "reads_features", 8, cell=cell)
        p, changed = (model(given)["activation"].numpy() for given in (features, other))
    assert np.array_equal(p, changed) == bool(hidden)
