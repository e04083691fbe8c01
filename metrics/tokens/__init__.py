"""The measures of any mixture of experts, layer by layer, from its gates and a label of every token."""

from modtf.metrics.tokens.accumulator import ActivationAccumulator as ActivationAccumulator
from modtf.metrics.tokens.activations import measure_activations as measure_activations
from modtf.metrics.tokens.compare import Compared as Compared
from modtf.metrics.tokens.compare import compare_activations as compare_activations
from modtf.metrics.tokens.experts import Experts as Experts
from modtf.metrics.tokens.factors import Factor as Factor
from modtf.metrics.tokens.factors import measure_factors as measure_factors
from modtf.metrics.tokens.layer import Estimate as Estimate
from modtf.metrics.tokens.layer import LayerMeasures as LayerMeasures
from modtf.metrics.tokens.layer import View as View
