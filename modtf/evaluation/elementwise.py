"""Losses and errors, elementwise: training averages them over everything, evaluation per member."""

from keras import ops


def absolute_error(target, output):
    """|target - output|, elementwise."""
    return ops.abs(ops.cast(target, output.dtype) - output)


def cross_entropy(target, logit):
    """Binary cross-entropy of a logit, elementwise, in nats."""
    return ops.relu(logit) - logit * ops.cast(target, logit.dtype) + ops.softplus(-ops.abs(logit))


def misclassified(target, logit):
    """1 where the sign of the logit is wrong, else 0, elementwise."""
    return ops.cast((logit >= 0) != (target >= 0.5), logit.dtype)


ELEMENTWISE = {"regression": absolute_error, "classification": cross_entropy}  # setting -> loss
