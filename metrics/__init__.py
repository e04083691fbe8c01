"""Measures of collapse and specialisation, in NumPy and SciPy. Importing this module does not load
TensorFlow.

Source of the five measures of collapse and specialisation: S. Mittal, Y. Bengio and G. Lajoie, "Is a Modular
Architecture Enough?", NeurIPS 2022, arXiv:2206.02713. Each diagnostic cites its own source.
"""

from modtf.metrics.activation_matrix import check_activation_matrix as check_activation_matrix
from modtf.metrics.activation_matrix import from_counts as from_counts
from modtf.metrics.activation_matrix import module_use as module_use
from modtf.metrics.activation_matrix import uniform_activation as uniform_activation
from modtf.metrics.adaptation import adaptation as adaptation
from modtf.metrics.adaptation import adaptation_from_usage as adaptation_from_usage
from modtf.metrics.adaptation import rule_distributions as rule_distributions
from modtf.metrics.alignment import alignment as alignment
from modtf.metrics.alignment import best_match as best_match
from modtf.metrics.alignment import best_permutation as best_permutation
from modtf.metrics.collapse import collapse_avg as collapse_avg
from modtf.metrics.collapse import collapse_worst as collapse_worst
from modtf.metrics.distributions import TOLERANCE as TOLERANCE
from modtf.metrics.exclusiveness import effective_rank as effective_rank
from modtf.metrics.exclusiveness import expert_overlap as expert_overlap
from modtf.metrics.exclusiveness import top_label_share as top_label_share
from modtf.metrics.information import inverse_mutual_information as inverse_mutual_information
from modtf.metrics.information import routing_entropy as routing_entropy
from modtf.metrics.load import effective_experts as effective_experts
from modtf.metrics.load import load_variation as load_variation
from modtf.metrics.registry import GROUPS as GROUPS
from modtf.metrics.registry import MAIN_GROUPS as MAIN_GROUPS
from modtf.metrics.registry import MEASURES as MEASURES
from modtf.metrics.registry import Measure as Measure
from modtf.metrics.registry import activation_measures as activation_measures
from modtf.metrics.registry import register_measure as register_measure
from modtf.metrics.registry import smaller_is_better as smaller_is_better
from modtf.metrics.values import measure_all as measure_all
from modtf.metrics.values import measure_population as measure_population
