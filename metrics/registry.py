"""All measures by name. Only this module knows whether a smaller value is better.

A new measure is one file with a function under `@register_measure(...)`, and one line here. A user's own file
needs only the decorator.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from modtf.base.checks import check_choice, check_name
from modtf.base.registry import Registry, origin
from modtf.metrics.measure import GROUPS, MAIN_GROUPS, Formula, Measure

F = TypeVar("F", bound=Callable[..., float])

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
