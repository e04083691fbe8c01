"""Layer widths and parameters of the architectures in closed form, without Keras or TensorFlow.

An impossible size is rejected at once, and the cost of a study is known. R rules, M modules (R as published,
or 1 for monolithic), e the width, d = 4e. `@register_size(architecture, ...)` adds a function of (cell, M,
how the router scores) for one network. The constants of its speed were measured on one core of a Xeon;
`--measure_cost` measures them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from modtf.base.checks import check_integer
from modtf.base.memory import check_fits
from modtf.base.registry import Registry, origin
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS
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


GATES = {"lstm": 4, "simple": 1}  # of recurrent cells
BY_RULE = ("gt_modular", "uniform", "hash", "clamped")  # routers without weights and scores
NAMES = ("mlp", "mha", "rnn")


@dataclass(frozen=True)
class Size:
    """The size and speed of one architecture.

    `function` takes the cell, the number of modules M, the kind of the router ("single", "rule", "scores", or
    "learned" from the rule), and the options of the network.
    """

    function: Callable[..., int]
    factor: float  # seconds of a core per token, member and parameter, see `modtf.studies.estimate.Speed`
    start: float  # seconds of a core, for building and compiling
    in_turn: bool = False  # whether members train one after the other


SIZES: Registry[Size] = Registry("size", dict.fromkeys(NAMES, "modtf.models.architectures.sizes"))


def register_size(name: str, factor: float, start: float, in_turn: bool = False) -> Callable[[Any], Any]:
    """Register a function that returns a network's parameters (a decorator); see `Size`."""

    def add(function: Callable[..., int]) -> Callable[..., int]:
        SIZES.add(name, Size(function, factor, start, in_turn), origin(function))
        return function

    return add


def num_parameters(cell: Cell) -> int | None:
    """Return the trainable parameters of one member, exactly; None for parts that plug-ins registered, and
    for options that change the sizes in another way than the number of modules."""
    if cell.runs in MODELS or cell.runs in ROUTERS.outside or cell.network not in SIZES:
        return None
    router, model = cell.task.family.variant(cell.variant).options(cell.router, cell.model)
    modules, kind, own = router.get("modules", cell.task.num_rules), "scores", 0
    if cell.runs == "monolithic":
        modules, kind = 1, "single"
    elif cell.runs in BY_RULE:
        kind = "rule"
    elif cell.runs == "modular_op":
        kind = "learned"
    elif cell.runs == "cosine":
        own = 2 * modules * router.get("dimensions", 8) + 1
    try:
        return SIZES[cell.network].function(cell, modules, kind, **model) + own
    except (KeyError, TypeError):  # an option that the function does not know
        return None


def dense(inputs: int, outputs: int, bias: bool = True) -> int:
    """Return the parameters of a dense layer."""
    return (inputs + bias) * outputs


def two_layer(inputs: int, hidden: int, outputs: int, bias: bool = True) -> int:
    """Return the parameters of dense, ReLU, dense."""
    return dense(inputs, hidden, bias) + dense(hidden, outputs, bias)


def mixture(modules: int, hidden: int, outputs: int, kind: str) -> int:
    """Return the parameters of the modules' last layers, with a score each if the router reads scores."""
    return modules * dense(hidden, outputs + (kind == "scores"))


@register_size("mlp", 4.5e-11, 7.0)
def mlp(cell: Cell, modules: int, kind: str) -> int:
    """Return the parameters of `modtf.models.architectures.mlp`."""
    e, d, rules, hidden = cell.width, 4 * cell.width, cell.task.num_rules, mlp_hidden(cell.width, modules)
    encoders = two_layer(1, e, e) + two_layer(rules, e, e)
    layers = dense(3 * e, modules * hidden) + mixture(modules, hidden, d, kind) + two_layer(d, e, 1)
    return encoders + layers + (dense(e, modules) if kind == "learned" else 0)


@register_size("mha", 5.6e-11, 9.0)
def mha(cell: Cell, modules: int, kind: str) -> int:
    """Return the parameters of `modtf.models.architectures.mha`."""
    e, rules, heads = cell.width, cell.task.num_rules, mha_heads(cell.task.num_rules, modules)
    k, hidden = mha_head(e, heads), mha_hidden(e, rules, modules)
    encoder = two_layer(cell.task.token_width + rules, e, e)
    attention = 3 * dense(e, heads * k) + dense(e, modules * k)
    on_top = modules * dense((heads // modules + 1) * k, hidden) + mixture(modules, hidden, e, kind)
    router = two_layer(rules, k, modules) if kind == "learned" else 0
    return encoder + attention + on_top + two_layer(e, e, 1) + router


@register_size("rnn", 8.9e-11, 9.0)
def rnn(cell: Cell, modules: int, kind: str, /, **options: Any) -> int:
    """Return the parameters of `modtf.models.architectures.rnn`."""
    gates, e, rules = GATES[options.get("cell", "lstm")], cell.width, cell.task.num_rules
    h, single = rnn_state(e, modules, gates), modules == 1 and kind != "scores"
    encoder = two_layer(cell.task.token_width + rules, e, e)
    cells = modules * gates * (dense(e, h, single) + dense(h, h, single))
    scores = 2 * modules * gates * h if kind == "scores" else 0
    router = two_layer(rules, h, modules, bias=False) if kind == "learned" else 0
    return encoder + cells + scores + router + two_layer(h, h, cell.task.output_width or 1)
