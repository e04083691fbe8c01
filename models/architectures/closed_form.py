"""The parameters of a cell's model in closed form, so that a study's cost is known without TensorFlow.

`@register_size(architecture, ...)` adds a function of (cell, M, how the router scores) for one network. The
constants of its speed were measured on one core of a Xeon; `--measure_cost` measures them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from modtf.base.registry import Registry, origin
from modtf.models.architectures.sizes import mha_head, mha_heads, mha_hidden, mlp_hidden, rnn_state
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS
from modtf.tasks.cell import Cell

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


SIZES: Registry[Size] = Registry("size", dict.fromkeys(NAMES, "modtf.models.architectures.closed_form"))


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
