"""The router `bias_balanced`."""

import numpy as np
from keras import ops

from modtf.base.checks import check_number
from modtf.models.kernels.choice import largest, softmax_among, underused
from modtf.models.kernels.sums import softmax
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup


@register_router("bias_balanced")
class BiasBalanced(Router):
    """A router that chooses the k modules with the largest softmax plus bias, and weights them by their
    scores.

    The weights are the softmax over the chosen modules' scores, without the bias (Wang, Gao, Zhao, Sun, Dai
    2024, "Auxiliary-Loss-Free Load Balancing Strategy for Mixture-of-Experts"). After every training step the
    bias rises by `rate` for modules that fewer tokens chose than the mean, and falls by it for those that
    more chose. The bias has no gradient. The paper's gates are sigmoids of the affinities, to which it adds
    the bias. Here p sums to 1, and the bias is added to the softmax. With k = 1, p is 1 and no score has a
    gradient.

    Args:
        modules: M; R by default.
        k: from 1 to M.
        rate: the step of the bias, from 0 to 1; 0.001 in the paper.
    """

    needs_scores = True

    def __init__(self, setup: RouterSetup, *, modules: int | None = None, k: int = 2, rate: float = 0.001):
        super().__init__(setup, modules=modules)
        self.k, self.rate = self.check_chosen(k), check_number("rate", rate, 0.0, 1.0)
        self.bias = self.keep("bias", np.zeros([self.num_members, self.num_modules, 1]))

    def extra_input(self, rule, training):
        return ops.convert_to_tensor(self.bias)

    def call(self, rule=None, rule_features=None, scores=None, extra=None):
        chosen = largest(softmax(scores) + extra, self.k)
        return softmax_among(chosen, scores)

    def advance(self, activation):
        self.bias.assign(self.bias + self.rate * underused(activation, self.bias.dtype))
