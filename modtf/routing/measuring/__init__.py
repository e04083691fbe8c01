"""The measures of any mixture of experts, layer by layer, from its gates and a label of every token."""

from modtf.routing.measuring.activations import ActivationAccumulator as ActivationAccumulator
from modtf.routing.measuring.activations import measure_activations as measure_activations
from modtf.routing.measuring.compare import Compared as Compared
from modtf.routing.measuring.compare import compare_activations as compare_activations
from modtf.routing.measuring.factors import Factor as Factor
from modtf.routing.measuring.factors import measure_factors as measure_factors
from modtf.routing.measuring.layers import Experts as Experts
from modtf.routing.measuring.layers import Gates as Gates
from modtf.routing.measuring.results import Estimate as Estimate
from modtf.routing.measuring.results import LayerMeasures as LayerMeasures
from modtf.routing.measuring.results import View as View
