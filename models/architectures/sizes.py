"""Layer widths of the architectures, without Keras, so that an impossible size is rejected at once.

R rules, M modules (R as published, or 1 for monolithic), e the width, d = 4e.
"""

import math
from collections.abc import Callable

from modtf.base.checks import check_integer
from modtf.base.memory import check_fits
from modtf.models.own import MODELS
from modtf.tasks.cell import Cell
from modtf.tasks.memory import cell_bytes


def mlp_hidden(width: int, num_modules: int) -> int:
    """Return the number of hidden units of one MLP module, floor(d / M)."""
    return _at_least_one(4 * width // num_modules, width, num_modules)


def mha_heads(num_rules: int, num_modules: int) -> int:
    """Return the number of attention heads: two per module. Monolithic has as many as R modules would."""
    return 2 * (num_rules if num_modules == 1 else num_modules)


def mha_head(width: int, num_heads: int) -> int:
    """Return the width k of an attention head, floor(d / heads)."""
    return _at_least_one(4 * width // num_heads, width, num_heads // 2)


def mha_hidden(width: int, num_rules: int, num_modules: int) -> int:
    """Return the hidden units I of one attention module's network: 2e for one module, else as published for M
    = R.

    The layers after the heads have as many numbers as in the monolithic model. M modules have M I (3k + e) of
    them, with k = d / 2M; monolithic has 2e ((2R + 1) d / 2R + e). I makes both equal, rounded down.
    """
    if num_modules == 1:
        return 2 * width
    e, R, M, d = width, num_rules, num_modules, 4 * width
    return _at_least_one(2 * e * (2 * R * (d + e) + d) // (R * (3 * d + 2 * M * e)), width, M)


def rnn_state(width: int, num_modules: int, num_gates: int = 4) -> int:
    """Return the state's width h. For one module it is d. Otherwise M cells and the decoder then have as many
    parameters as the monolithic model.

    For 4 gates this is the published formula for M = R, the positive root of
    (4M+1) h^2 + (4Me+1) h = 5 d^2 + d (4e+1), rounded down. M cells without bias have 4h (e + h) parameters
    each, and the decoder h^2 + h; the single cell has 4d (e + d), and its decoder d^2 + d.
    """
    if num_modules == 1:
        return 4 * width
    e, g, d = width, num_gates, 4 * width
    linear, square = g * num_modules * e + 1, g * num_modules + 1
    budget = (g + 1) * d * d + d * (g * e + 1)
    h = (math.isqrt(linear * linear + 4 * square * budget) - linear) // (2 * square)
    return _at_least_one(h, width, num_modules)


_CHECKS: dict[str, Callable[[int, int, int], object]] = {
    "mlp": lambda e, R, M: mlp_hidden(e, M),
    "mha": lambda e, R, M: (mha_head(e, mha_heads(R, M)), mha_hidden(e, R, M)),
    "rnn": lambda e, R, M: rnn_state(e, M),
}


def check_width(architecture: str, width: int, num_rules: int, num_modules: int | None = None) -> None:
    """Raise `ValueError` if a module of this architecture would have no unit.

    Registered architectures are checked only when they are built. R modules are the default.
    """
    if num_modules is not None:
        check_integer("router.modules", num_modules, 1)
    check = _CHECKS.get(architecture)
    if check is not None:
        check(width, num_rules, num_rules if num_modules is None else num_modules)


#: lower bound on parameters per squared width, for any variant, cell and number of modules
_LEAST = {"mlp": 14, "mha": 12, "rnn": 16}


def least_parameters(architecture: str, width: int) -> int:
    """Return a lower bound on a member's parameters: a sixth to a half of the true number. The bound is 0 for
    registered architectures, about which nothing is known."""
    return _LEAST.get(architecture, 0) * width * width


def check_size(cell: Cell) -> None:
    """Raise `ValueError` if a cell certainly cannot fit into memory, without building it."""
    least = 0 if cell.runs in MODELS else least_parameters(cell.network, cell.width)
    what = f"{cell.label} with {len(cell.members)} members"
    mend = "Choose smaller batches, a smaller width, fewer rules or fewer members."
    check_fits(what, cell_bytes(cell, least), mend)


def _at_least_one(size: int, width: int, num_modules: int) -> int:
    if size < 1:
        raise ValueError(
            f"width={width} is too small for {num_modules} modules: each module would have less than one "
            "unit. Choose a larger width or fewer rules."
        )
    return size
