"""Models that are not told the rule."""

import numpy as np
import pytest

from modtf import Task, convert, stream
from modtf.models.build import build


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
