"""Elementwise losses and errors: training averages them over everything, evaluation per member."""

from collections.abc import Callable
from typing import Any

from keras import ops

from modtf.base.registry import resolve
from modtf.tasks.condition import SETTINGS


def absolute_error(target, output):
    """|target - output|, elementwise."""
    return ops.abs(ops.cast(target, output.dtype) - output)


def cross_entropy(target, logit):
    """Binary cross-entropy of a logit, elementwise, in nats."""
    return ops.relu(logit) - logit * ops.cast(target, logit.dtype) + ops.softplus(-ops.abs(logit))


def misclassified(target, logit):
    """1 if the sign of the logit is wrong, else 0, elementwise."""
    return ops.cast((logit >= 0) != (target >= 0.5), logit.dtype)


def categorical_cross_entropy(target, logits):
    """Cross-entropy of logits [..., C] for classes [...], in nats."""
    one_hot = ops.one_hot(ops.cast(target, "int32"), logits.shape[-1], dtype=logits.dtype)
    return ops.logsumexp(logits, axis=-1) - ops.sum(one_hot * logits, axis=-1)


def wrong_class(target, logits):
    """1 if the largest of the logits [..., C] is not at the target's class, else 0."""
    return ops.cast(ops.argmax(logits, axis=-1) != ops.cast(target, "int32"), logits.dtype)


def divergence(target, logits):
    """Return KL(target, softmax(logits)) over the last axis, in nats.

    A target is a law [..., V] times the weight of its token, which multiplies the result. For one-hot targets
    it is the cross-entropy.
    """

    def with_log(x):
        return x * ops.log(ops.where(x > 0, x, 1.0))

    target = ops.cast(target, logits.dtype)
    weight = ops.sum(target, axis=-1)
    cross = weight * ops.logsumexp(logits, axis=-1) - ops.sum(target * logits, axis=-1)
    return cross + ops.sum(with_log(target), axis=-1) - with_log(weight)


def loss_of(setting: str) -> Callable[[Any, Any], Any]:
    """Return the elementwise loss of a setting."""
    return resolve(SETTINGS[setting].loss)


def error_of(setting: str) -> Callable[[Any, Any], Any] | None:
    """Return the elementwise error of a setting, a share from 0 to 1; None if it defines none."""
    return resolve(SETTINGS[setting].error)
