"""Models that are not told the rule."""

import numpy as np
import pytest
from keras import ops
from registering import forgotten

from modtf import Task, convert, register_router, stream
from modtf.models import Router
from modtf.models.build import build
from modtf.models.routers import ROUTERS


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
