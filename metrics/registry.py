"""All measures by name; the only place in the project that is asked whether smaller is better.

A new measure is one file that ends with `MEASURE = Measure(...)`, and one line here.
"""

from modtf.metrics.measure import GROUPS, Measure
from modtf.registry import Registry

# The order is that of the columns in tables.
MEASURES: Registry[Measure] = Registry(
    "measure",
    {
        "loss": "modtf.metrics.performance:LOSS",
        "error": "modtf.metrics.performance:ERROR",
        "collapse_avg": "modtf.metrics.collapse_avg:MEASURE",
        "collapse_worst": "modtf.metrics.collapse_worst:MEASURE",
        "alignment": "modtf.metrics.alignment:MEASURE",
        "inverse_mutual_information": "modtf.metrics.inverse_mutual_information:MEASURE",
        "adaptation": "modtf.metrics.adaptation:MEASURE",
    },
)


def measures(group: str | None = None) -> tuple[Measure, ...]:
    """All measures, or those of one group, in the order of the registry.

    Raises:
        ValueError: if the group is not one of "performance", "collapse", "specialisation".

    Example:
        >>> [measure.name for measure in measures("collapse")]
        ['collapse_avg', 'collapse_worst']
    """
    if group is not None and group not in GROUPS:
        raise ValueError(f"Unknown group of measures {group!r}; expected one of {', '.join(GROUPS)}.")
    return tuple(measure for measure in MEASURES.values() if group in (None, measure.group))


def activation_measures() -> tuple[Measure, ...]:
    """The measures that are computed from an activation matrix, in the order of the registry."""
    return tuple(measure for measure in MEASURES.values() if measure.function is not None)


def smaller_is_better(name: str) -> bool:
    """Whether a smaller value of the named measure is the better one.

    Raises:
        KeyError: if there is no measure of that name; the message lists those there are.

    Example:
        >>> smaller_is_better("error")
        True
    """
    return MEASURES[name].smaller_is_better
