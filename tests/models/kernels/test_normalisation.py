"""Batch normalisation in one operation, against its equations in NumPy's float64."""

import numpy as np
import pytest
import tensorflow as tf

from modtf.models.kernels.normalisation import BatchNormalization

MOMENTUM, EPSILON = 0.9, 1e-5


def in_numpy(x, weight, affine):
    """Return y, the gradients of sum(weight * y), and the moving averages after one step from 0 and 1."""
    width = x.shape[-1]
    rows, w = (np.float64(values).reshape(-1, width) for values in (x, weight))
    scale, shift = (np.linspace(0.5, 2, width), np.linspace(-1, 1, width)) if affine else (1.0, 0.0)
    mean, variance = rows.mean(axis=0), rows.var(axis=0)
    rate = 1 / np.sqrt(variance + EPSILON)
    unit = (rows - mean) * rate
    of_x = scale * rate * (w - w.mean(axis=0) - unit * (w * unit).mean(axis=0))
    of_weights = [(w * unit).sum(axis=0), w.sum(axis=0)] if affine else []
    kept = (1 - MOMENTUM) * mean, MOMENTUM + (1 - MOMENTUM) * variance
    return [(scale * unit + shift).reshape(x.shape), of_x.reshape(x.shape), *of_weights, *kept]


@pytest.mark.parametrize(
    ("shape", "mean", "spread"),
    [((6, 4, 3, 5), 1, 2), ((6, 4, 3, 5), 1000, 1), ((7, 5), 1, 0.003), ((1, 5), 1, 2)],
)
@pytest.mark.parametrize("affine", [True, False])
def test_it_is_what_the_equations_say(shape, mean, spread, affine):
    """Answers, gradients and moving averages: a large mean, variances near epsilon, one example."""
    generator = np.random.default_rng(0)
    x, weight = (np.float32(values) for values in generator.normal(size=(2, *shape)))
    x = mean + np.float32(spread) * x
    layer = BatchNormalization(momentum=MOMENTUM, epsilon=EPSILON, center=affine, scale=affine)
    layer.build(shape)
    if affine:
        layer.gamma.assign(np.linspace(0.5, 2, shape[-1]))
        layer.beta.assign(np.linspace(-1, 1, shape[-1]))

    @tf.function
    def both(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True)
            loss = tf.reduce_sum(weight * y)
        return y, *tape.gradient(loss, [x, *(v.value for v in layer.trainable_variables)])

    found = [*both(tf.constant(x)), *layer.non_trainable_variables]
    for own, expected in zip(found, in_numpy(x, weight, affine), strict=True):
        np.testing.assert_allclose(own, expected, rtol=3e-4, atol=3e-4 * np.abs(expected).max())


def test_a_mask_leaves_rows_out():
    x, layer = np.random.default_rng(0).normal(size=[7, 5]), BatchNormalization(momentum=0.0)
    layer(np.float32(x), training=True, mask=np.arange(7) < 3)
    np.testing.assert_allclose(layer.moving_mean, x[:3].mean(axis=0), rtol=1e-5)
