"""Measures of collapse and specialisation, in NumPy and SciPy. Importing this loads no TensorFlow.

Source of the five measures of collapse and specialisation: S. Mittal, Y. Bengio and G. Lajoie, "Is a Modular
Architecture Enough?", NeurIPS 2022, arXiv:2206.02713. Each diagnostic names its own.
"""

from modtf.metrics.activation_matrix import (
    check_activation_matrix,
    from_counts,
    module_use,
    uniform_activation,
)
from modtf.metrics.adaptation import adaptation, adaptation_from_usage, rule_distributions
from modtf.metrics.alignment import alignment, best_match, best_permutation
from modtf.metrics.collapse_avg import collapse_avg
from modtf.metrics.collapse_worst import collapse_worst
from modtf.metrics.distributions import TOLERANCE
from modtf.metrics.effective_experts import effective_experts
from modtf.metrics.effective_rank import effective_rank
from modtf.metrics.expert_overlap import expert_overlap
from modtf.metrics.inverse_mutual_information import inverse_mutual_information
from modtf.metrics.load_variation import load_variation
from modtf.metrics.measure import GROUPS, MAIN_GROUPS, Measure
from modtf.metrics.registry import (
    MEASURES,
    activation_measures,
    measures,
    register_measure,
    smaller_is_better,
)
from modtf.metrics.routing_entropy import routing_entropy
from modtf.metrics.tokens import (
    ActivationAccumulator,
    LayerMeasures,
    compare_activations,
    measure_activations,
    measure_factors,
)
from modtf.metrics.top_label_share import top_label_share
from modtf.metrics.values import measure_all, measure_population

__all__ = [
    "GROUPS",
    "MAIN_GROUPS",
    "MEASURES",
    "TOLERANCE",
    "ActivationAccumulator",
    "LayerMeasures",
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
    "compare_activations",
    "effective_experts",
    "effective_rank",
    "expert_overlap",
    "from_counts",
    "inverse_mutual_information",
    "load_variation",
    "measure_activations",
    "measure_all",
    "measure_factors",
    "measure_population",
    "measures",
    "module_use",
    "register_measure",
    "routing_entropy",
    "rule_distributions",
    "smaller_is_better",
    "top_label_share",
    "uniform_activation",
]
