"""Layer widths of the architectures, without TensorFlow: a size that cannot work is refused at once.

R rules, M modules (R, or 1 for monolithic), e the width, d = 4e.
"""

import math
from collections.abc import Callable


def mlp_hidden(width: int, num_modules: int) -> int:
    """Hidden units of one MLP module, floor(d / M)."""
    return _at_least_one(4 * width // num_modules, width, num_modules)


def mha_head(width: int, num_rules: int) -> int:
    """Width k of an attention head, floor(d / 2R)."""
    return _at_least_one(4 * width // (2 * num_rules), width, num_rules)


def mha_hidden(width: int, num_rules: int, num_modules: int) -> int:
    """Hidden units I of one attention module's network: 2e for one module, else as published."""
    if num_modules == 1:
        return 2 * width
    e, R, d = width, num_rules, 4 * width
    return _at_least_one(2 * e * (2 * R * (d + e) + d) // (R * (3 * d + 2 * R * e)), width, num_rules)


def rnn_state(width: int, num_rules: int, num_modules: int, num_gates: int = 4) -> int:
    """The state's width h: d for one module, else where R cells and decoder have that one's parameters.

    For 4 gates the latter is the published formula, the positive root of
    (4R+1) h^2 + (4Re+1) h = 5 d^2 + d (4e+1), rounded down.
    """
    if num_modules == 1:
        return 4 * width
    e, g, d = width, num_gates, 4 * width
    linear, square = g * num_rules * e + 1, g * num_rules + 1
    budget = (g + 1) * d * d + d * (g * e + 1)
    h = (math.isqrt(linear * linear + 4 * square * budget) - linear) // (2 * square)
    return _at_least_one(h, width, num_rules)


_CHECKS: dict[str, Callable[[int, int], object]] = {
    "mlp": lambda e, R: mlp_hidden(e, R),
    "mha": lambda e, R: (mha_head(e, R), mha_hidden(e, R, R)),
    "rnn": lambda e, R: rnn_state(e, R, R),
}


def check_width(arch: str, width: int, num_rules: int) -> None:
    """Raises `ValueError` where a module of this architecture would have no unit."""
    _CHECKS[arch](width, num_rules)


def _at_least_one(size: int, width: int, num_modules: int) -> int:
    if size < 1:
        raise ValueError(
            f"width={width} is too small for {num_modules} modules: each would have less than one unit. "
            "Take a larger width or fewer rules."
        )
    return size
