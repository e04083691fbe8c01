"""Checks that every model must pass."""

import numpy as np


def outputs_of(model, features):
    return {name: np.asarray(value) for name, value in model(features).items()}


def check_members(model, alone, features):
    """Check that p is a distribution, and that the second member's outputs equal those of its own model.

    Returns:
        The outputs.
    """
    outputs = outputs_of(model, features)
    p = outputs["activation"]
    assert p.shape == (*features["rule"].shape, model.num_modules)
    assert p.min() >= 0
    np.testing.assert_allclose(p.sum(-1), 1.0, rtol=1e-12)
    for key, value in outputs_of(alone, {k: v[:, 1] for k, v in features.items()}).items():
        np.testing.assert_allclose(value, outputs[key][:, 1], rtol=1e-11, atol=1e-11)
    check_stand_in(model, features, outputs)
    return outputs


def check_stand_in(model, features, outputs):
    """Check that the first member's model becomes the second with its state, as training in turn needs."""
    one = model.some_members(0, 1)
    for both, alone in zip(model.variables, one.variables, strict=True):
        alone.assign(both if both.shape == alone.shape else both[1:2])
    for key, value in outputs_of(one, {k: v[:, 1:2] for k, v in features.items()}).items():
        np.testing.assert_allclose(value, outputs[key][:, 1:2], rtol=1e-11, atol=1e-11)


def depends_only_on_rule(model, features):
    """Return whether p stays the same when the inputs change."""
    other = {**features, "inputs": 1.0 - 3.0 * features["inputs"]}
    return np.array_equal(*(outputs_of(model, each)["activation"] for each in (features, other)))
