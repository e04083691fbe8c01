"""Hard choices among modules, without the transpositions and sorts of a backend's own top-k."""

from keras import ops


def largest(scores, count: int = 1):
    """1 where a module is among the `count` with the largest scores, else 0; of equals the first counts.

    Has no gradient.

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
