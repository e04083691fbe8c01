"""All measures by name, with their range, best value, better direction and axis label.

A new measure is one file with a function under `@register_measure(...)`, and one line here. A user's own file
needs only the decorator.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np

from modtf.base.checks import check_attributes, check_choice, check_name, is_number
from modtf.base.registry import Registry, origin
from modtf.metrics.distributions import Array

F = TypeVar("F", bound=Callable[..., float])

# Evaluation computes "performance"; the other groups are functions of an activation matrix. A "diagnostic" is
# an additional quantity that practitioners use. It is shown on request only, to keep the main tables small.
GROUPS = ("performance", "collapse", "specialisation", "diagnostic")
MAIN_GROUPS = ("collapse", "specialisation")
ARGUMENTS = ("rule_probs", "usage", "rule_frequencies", "num_draws")


#: activation matrices `[..., R, M]`, checked, and p(r) `[R]` -> the value of each matrix `[...]`
Formula = Callable[[Array, Array], Array]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The facts that tables, figures and tests need about one measure; see `register_measure`.

    Raises:
        ValueError: if the group is unknown; if range, perfect value and direction contradict each other; or
            if the function's arguments are not `A` and a choice of the documented optional ones.
    """

    name: str
    group: str  # one of GROUPS
    range: tuple[float, float]
    perfect: float | None
    smaller_is_better: bool | None
    description: str
    axis_label: str
    function: Callable[..., float] | None = None  # None for performance measures
    formula: Formula | None = None  # the same of many checked matrices at once
    needs_labels: bool = True  # False for a function of the load p @ A alone

    def __post_init__(self) -> None:
        what = f"Measure {self.name!r}"
        check_attributes(what, self, name=str, group=str, description=str, axis_label=str)
        fault = next(self._faults(), None)
        if fault is not None:
            raise ValueError(f"{what}: {fault}")

    def _faults(self) -> Iterator[str]:
        """Yield the faults. Each check assumes that the ones before it passed."""
        smaller, perfect, function = self.smaller_is_better, self.perfect, self.function
        two = isinstance(self.range, tuple | list) and len(self.range) == 2
        if not two or not all(map(is_number, self.range)):
            yield f"range is {self.range!r}; expected two numbers."
        if perfect is not None and not is_number(perfect):
            yield f"perfect={perfect!r}; expected a number or None."
        if not (smaller is None or isinstance(smaller, bool)):
            yield f"smaller_is_better={smaller!r}; expected True, False or None."
        if self.group not in GROUPS:
            yield f"group is {self.group!r}; expected one of {', '.join(GROUPS)}."
        yield from self._faults_of_values()
        if (function is None) != (self.group == "performance"):
            yield (
                f"group {self.group!r} and function={function!r}; expected a function of the activation "
                "matrix in every group but 'performance', and none there."
            )
        if function is not None:
            yield from self._faults_of(function)

    def _faults_of_values(self) -> Iterator[str]:
        smaller, perfect = self.smaller_is_better, self.perfect
        low, high = self.range
        if not low < high:
            yield f"range is {self.range}; expected (low, high) with low < high."
        if self.group != "diagnostic" and (smaller is None or perfect is None):
            yield (
                f"perfect={perfect} and smaller_is_better={smaller}, but the group {self.group!r} needs a "
                "best value. Give both, or use the group 'diagnostic'."
            )
        best = None if smaller is None else low if smaller else high
        if perfect != best and not (self.group == "diagnostic" and perfect is None):
            yield (
                f"perfect is {perfect}; expected {best}, the best value for smaller_is_better={smaller} and "
                f"range {self.range}."
            )

    def _faults_of(self, function: Callable[..., float]) -> Iterator[str]:
        if not callable(function):
            yield f"function={function!r} cannot be called."
        parameters = list(inspect.signature(function).parameters.values())
        first, others = next(iter(parameters), None), parameters[1:]
        by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        if first is None or first.name != "A" or first.kind not in by_position:
            yield f"the first argument of its function is {first}; expected 'A', the activation matrix."
        for other in others:
            if other.name not in ARGUMENTS or other.default is inspect.Parameter.empty:
                yield (
                    f"its function has the argument '{other}'; expected A and, with defaults, any of "
                    f"{', '.join(ARGUMENTS)}."
                )

    def accepts(self, argument: str) -> bool:
        """Return whether the measure's function has an argument of this name."""
        return self.function is not None and argument in _arguments(self.function)


@cache  # called for every matrix of a jackknife; `inspect` takes longer than a measure
def _arguments(function: Callable[..., float]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


#: rows of results and histories that modtf writes beside those of measures
BESIDE = (
    "diverged", "error_gap", "input_bits", "irreducible_error", "irreducible_loss", "loss_gap",
    "members_times_steps_per_second", "seconds",
)  # fmt: skip


def check_row(kind: str, name: str, others: Iterable[str] = ()) -> None:
    """Raise `ValueError` if a name is not valid, or is in `BESIDE` or in `others`.

    `kind` says for the error what would have the name: "a penalty".
    """
    check_name(kind, name)
    if name in (*BESIDE, *others):
        raise ValueError(
            f"{name!r} cannot be the name of {kind}: modtf writes values of that name, which would be "
            "replaced. Choose another name."
        )


# The order is that of the columns in tables.
MEASURES: Registry[Measure] = Registry(
    "measure",
    {
        "loss": "modtf.metrics.performance",
        "error": "modtf.metrics.performance",
        "collapse_avg": "modtf.metrics.collapse",
        "collapse_worst": "modtf.metrics.collapse",
        "alignment": "modtf.metrics.alignment",
        "inverse_mutual_information": "modtf.metrics.information",
        "adaptation": "modtf.metrics.adaptation",
        "load_variation": "modtf.metrics.load",
        "routing_entropy": "modtf.metrics.information",
        "effective_experts": "modtf.metrics.load",
        "effective_rank": "modtf.metrics.exclusiveness",
        "expert_overlap": "modtf.metrics.exclusiveness",
        "top_label_share": "modtf.metrics.exclusiveness",
    },
    lambda name, measure: check_row("a measure", name),
)


def register_measure(
    name: str,
    *,
    group: str,
    range: tuple[float, float],
    perfect: float | None,
    description: str,
    axis_label: str,
    smaller_is_better: bool | None = True,
    needs_labels: bool = True,
    formula: Formula | None = None,
) -> Callable[[F], F]:
    """Make a function of the activation matrix a measure in tables, figures and results (a decorator).

    Args:
        name: lower-case letters, digits and underscores.
        group: "collapse" or "specialisation", which claims use, or "diagnostic" for anything else. Tables and
            figures show a registered measure whatever its group; of modtf's own measures they show the first
            two groups.
        range: smallest and largest possible value; the largest may be infinite.
        perfect: the best end of the range, or None for a diagnostic without one (or whose best value depends
            on the number of modules).
        description: one line.
        axis_label: for figures.
        smaller_is_better: True or False, or None for a diagnostic of which neither end is better.
        needs_labels: False for a function of the load p @ A alone. Such a measure has a value without labels,
            and no chance level, because permuted labels do not change it.
        formula: the values of many checked matrices `[N, R, M]` at once, from these and p(r) `[R]`; without
            it the function is called for each matrix.

    Returns:
        The decorator, which returns the function itself. The function takes the activation matrix `A [R, M]`,
        rows p(module | rule). It may also have arguments with defaults of the names `rule_probs [R]`, `usage
        [K, M]`, `rule_frequencies [K, R]` or `num_draws` (see `measure_all` and `adaptation`), which it then
        receives. It returns a float, NaN if it is undefined (one module, one rule).

    Raises:
        ValueError: if the name is invalid or taken, or the description contradicts itself (see `Measure`).

    Example:
        >>> @register_measure(  # doctest: +SKIP
        ...     "dead_modules", group="collapse", range=(0.0, 1.0), perfect=0.0,
        ...     description="Share of modules that no rule uses.", axis_label="Dead modules",
        ... )
        ... def dead_modules(A):
        ...     return float((A.max(axis=0) < 0.01).mean())
    """
    MEASURES.check_name(name)

    def add(function: F) -> F:
        measure = Measure(
            name=name,
            group=group,
            range=range,
            perfect=perfect,
            smaller_is_better=smaller_is_better,
            description=description,
            axis_label=axis_label,
            function=function,
            needs_labels=needs_labels,
            formula=formula,
        )
        MEASURES.add(name, measure, origin(function))
        return function

    return add


def check_groups(groups: Iterable[str]) -> tuple[str, ...]:
    """Return groups of measures as a tuple. Raise `ValueError` if there is none, or one is unknown."""
    wanted = (groups,) if isinstance(groups, str) or not np.iterable(groups) else tuple(groups)
    for group in wanted or ("",):
        check_choice("groups", group if isinstance(group, str) else repr(group), GROUPS)
    return wanted


def activation_measures(groups: Iterable[str] | None = None) -> tuple[Measure, ...]:
    """Return the measures that are computed from an activation matrix, in the registry's order.

    Args:
        groups: the groups to return. The default is what tables and figures show: the five published measures
            and all that users register. `groups=GROUPS` adds modtf's diagnostics.

    Raises:
        ValueError: if a group is unknown.

    Example:
        >>> [measure.name for measure in activation_measures()][:3]
        ['collapse_avg', 'collapse_worst', 'alignment']
    """
    own = MEASURES.outside if groups is None else []
    wanted = check_groups(MAIN_GROUPS if groups is None else groups)
    shown = (m for m in MEASURES.values() if m.group in wanted or m.name in own)
    return tuple(m for m in shown if m.function is not None)


def smaller_is_better(name: str) -> bool:
    """Return whether a smaller value of the named measure is better.

    Raises:
        KeyError: if no measure has that name; the message lists all names.
        ValueError: if it is a diagnostic without a better direction.

    Example:
        >>> smaller_is_better("error")
        True
    """
    smaller = MEASURES[name].smaller_is_better
    if smaller is None:
        raise ValueError(
            f"The measure {name!r} cannot rank models, because neither direction is better. Rank by one of "
            f"{', '.join(m.name for m in MEASURES.values() if m.smaller_is_better is not None)}."
        )
    return smaller
