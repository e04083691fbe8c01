"""Batch normalisation by a batch's own statistics, as one operation of TensorFlow.

The operation centres the numbers before it squares them, so a large mean does not spoil the variance. It adds
in float32, as Keras's layer does: over 262,144 nearly equal numbers both are up to 1e-3 off.
"""

from typing import Any

import keras
from keras import layers, ops


def can_fuse(x: Any) -> bool:
    """Return whether TensorFlow has the operation for x: float32 numbers on TensorFlow."""
    return keras.backend.backend() == "tensorflow" and keras.backend.standardize_dtype(x.dtype) == "float32"


def fused_normalisation(x: Any, scale: Any, shift: Any, epsilon: float) -> tuple[Any, Any, Any]:
    """Return x, normalised over all axes except the last, and the mean and the unbiased variance [C].

    Gradients flow through the normalised x alone. The variance of a single number is 0.
    """
    import tensorflow as tf

    flat = ops.reshape(x, [1, 1, -1, x.shape[-1]])
    how = {"mean": [], "variance": [], "epsilon": epsilon, "is_training": True}
    made = tf.raw_ops.FusedBatchNormV3(x=flat, scale=scale, offset=shift, **how)
    return ops.reshape(made.y, ops.shape(x)), made.batch_mean, made.batch_variance


class BatchNormalization(layers.BatchNormalization):
    """Keras's layer, which normalises in one operation while it trains.

    The class has the name of Keras's, under which its weights are saved.
    """

    def call(self, inputs, training=None, mask=None):
        if mask is not None or not (training and self.trainable and can_fuse(inputs)):
            return super().call(inputs, training=training, mask=mask)
        ones = ops.ones_like(self.moving_mean)
        scale, shift = self.gamma if self.scale else ones, self.beta if self.center else 0.0 * ones
        outputs, mean, variance = fused_normalisation(inputs, scale, shift, self.epsilon)
        count = ops.cast(ops.size(inputs) // inputs.shape[-1], variance.dtype)
        biased = variance * (count - 1.0) / count
        for moving, now in ((self.moving_mean, mean), (self.moving_variance, biased)):
            moving.assign(moving * self.momentum + now * (1.0 - self.momentum))
        return outputs
