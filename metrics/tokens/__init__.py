"""The measures of any mixture of experts, layer by layer, from its gates and a label of every token."""

from modtf.metrics.tokens.accumulator import ActivationAccumulator
from modtf.metrics.tokens.activations import measure_activations
from modtf.metrics.tokens.compare import Compared, compare_activations
from modtf.metrics.tokens.experts import Experts
from modtf.metrics.tokens.factors import Factor, measure_factors
from modtf.metrics.tokens.layer import Estimate, LayerMeasures, View

__all__ = [
    "ActivationAccumulator",
    "Compared",
    "Estimate",
    "Experts",
    "Factor",
    "LayerMeasures",
    "View",
    "compare_activations",
    "measure_activations",
    "measure_factors",
]
