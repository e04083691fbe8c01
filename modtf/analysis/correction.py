"""Many looks at once: which of several differences is more than the largest of as many accidents?"""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: the smallest times their number, the next times one fewer, ...; NaN stays NaN.

    Example:
        >>> holm([0.01, 0.04, 0.02])
        [0.03, 0.04, 0.04]
    """
    order = sorted((i for i, p in enumerate(p_values) if p == p), key=lambda i: p_values[i])
    corrected, largest = [float("nan")] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected
