"""Batch normalisation in one operation, against Keras's layer."""

import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from modtf.models.kernels.normalisation import BatchNormalization


@pytest.mark.parametrize("shape", [(6, 4, 3, 5), (7, 5)])
@pytest.mark.parametrize("affine", [True, False])
def test_it_is_keras_layer(shape, affine):
    """Answers, gradients and moving averages are equal, also in a compiled program."""
    generator = np.random.default_rng(0)
    x, weight = (tf.constant(generator.normal(1, 2, shape), tf.float32) for _ in range(2))
    found = []
    for kind in (layers.BatchNormalization, BatchNormalization):
        layer = kind(momentum=0.9, epsilon=1e-5, center=affine, scale=affine)
        layer.build(shape)
        for variable in layer.trainable_variables:
            variable.assign(np.linspace(0.5, 2, shape[-1]))

        @tf.function
        def both(layer=layer):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = layer(x, training=True)
                loss = tf.reduce_sum(weight * y)
            return y, *tape.gradient(loss, [x, *(v.value for v in layer.trainable_variables)])

        found.append([*map(np.array, both()), *map(np.array, layer.non_trainable_variables)])
    for own, of_keras in zip(*found, strict=True):
        np.testing.assert_allclose(own, of_keras, rtol=1e-4, atol=1e-5)
