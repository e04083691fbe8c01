"""Hard choices among modules, without the transpositions and sorts of a backend's own top-k."""

from keras import ops

from modtf.models.kernels.sums import softmax


def largest(scores, count: int = 1):
    """Return 1 for each module among the `count` largest scores, else 0. Ties go to the first module.

    It has no gradient.

    Args:
        scores: [P, M, T].
        count: at least 1 and at most M.
    """
    scores, modules = ops.stop_gradient(scores), scores.shape[1]
    chosen = ops.zeros_like(scores)
    for _ in range(count):
        left = ops.where(chosen > 0, -float("inf"), scores)
        chosen = chosen + ops.one_hot(ops.argmax(left, axis=1), modules, axis=1, dtype=scores.dtype)
    return chosen


def softmax_among(chosen, scores):
    """Return the softmax over the scores of the chosen modules, and 0 for the others. All are [P, M, T]."""
    return softmax(ops.where(chosen > 0, scores, -float("inf")))


def underused(activation, dtype):
    """Return [P, M, 1]: 1 for modules with fewer tokens than average in activation [P, M, T], -1 for more."""
    load = ops.mean(ops.cast(activation > 0, dtype), axis=2, keepdims=True)
    return ops.sign(ops.mean(load, axis=1, keepdims=True) - load)
