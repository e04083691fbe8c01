"""Measures of collapse and specialisation, in NumPy and SciPy. Importing this loads no TensorFlow.

Source of the five measures: S. Mittal, Y. Bengio and G. Lajoie, "Is a Modular Architecture Enough?",
NeurIPS 2022, arXiv:2206.02713.
"""

from modtf.metrics.activation_matrix import (
    check_activation_matrix,
    from_counts,
    module_use,
    uniform_activation,
)
from modtf.metrics.adaptation import adaptation, adaptation_from_usage, rule_distributions
from modtf.metrics.alignment import alignment, best_match, best_permutation
from modtf.metrics.apply import measure_all, measure_population
from modtf.metrics.collapse_avg import collapse_avg
from modtf.metrics.collapse_worst import collapse_worst
from modtf.metrics.distributions import TOLERANCE
from modtf.metrics.inverse_mutual_information import inverse_mutual_information
from modtf.metrics.measure import GROUPS, MAIN_GROUPS, Measure
from modtf.metrics.registry import (
    MEASURES,
    activation_measures,
    measures,
    register_measure,
    smaller_is_better,
)

__all__ = [
    "GROUPS",
    "MAIN_GROUPS",
    "MEASURES",
    "TOLERANCE",
    "Measure",
    "activation_measures",
    "adaptation",
    "adaptation_from_usage",
    "alignment",
    "best_match",
    "best_permutation",
    "check_activation_matrix",
    "collapse_avg",
    "collapse_worst",
    "from_counts",
    "inverse_mutual_information",
    "measure_all",
    "measure_population",
    "measures",
    "module_use",
    "register_measure",
    "rule_distributions",
    "smaller_is_better",
    "uniform_activation",
]
