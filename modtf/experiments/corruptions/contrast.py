"""The contrastive loss: views of one image are alike, those of others are not."""

import math

import keras
from keras import ops

from modtf.checks import check_choice, check_number

TEMPERATURE = 0.15
DENOMINATORS = ("with_positive", "negatives")  # the released code's, and that of the text


class ContrastiveLoss(keras.losses.Loss):
    """strength times the mean over anchors (image i, view r) of the sum over the image's other views s of
    -log(exp(sim(z_r, z_s) / T) / sum over all views of other images of exp(sim / T)), sim the cosine.

    Args:
        strength: lambda, at least 0.
        denominator: "negatives", that sum alone, as in the text; "with_positive" adds the numerator.

    Raises:
        ValueError: on another value.
    """

    def __init__(self, strength: float, denominator: str = DENOMINATORS[0], name: str = "contrast"):
        super().__init__(name=name)
        self.strength = check_number("strength", strength, 0.0, math.inf)
        check_choice("denominator", denominator, DENOMINATORS)
        self.with_positive = denominator == DENOMINATORS[0]

    def call(self, y_true, y_pred):
        """Of views [B, N, F]; classes are not looked at."""
        images, views, width = y_pred.shape
        z = ops.reshape(y_pred, [-1, width])
        z = z * ops.rsqrt(ops.maximum(ops.sum(z * z, axis=1, keepdims=True), 1e-12))
        similar = ops.matmul(z, ops.transpose(z)) / TEMPERATURE  # [B N, B N]
        image = ops.arange(images * views) // views
        same = image[:, None] == image
        itself = ops.eye(images * views, dtype="bool")
        least = ops.cast(-1e9, similar.dtype)
        negatives = ops.logsumexp(ops.where(same, least, similar), axis=1, keepdims=True)
        below = ops.logaddexp(negatives, similar) if self.with_positive else negatives
        positives = ops.logical_and(same, ops.logical_not(itself))
        terms = ops.where(positives, below - similar, ops.zeros_like(similar))
        return self.strength * ops.sum(terms) / (images * views)
