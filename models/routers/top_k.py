"""The router `top_k`."""

from modtf.models.kernels.choice import largest, softmax_among
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup


@register_router("top_k")
class TopK(Router):
    """The softmax over the k largest scores, 0 for all other modules (Shazeer, Mirhoseini, Maziarz, Davis,
    Le, Hinton, Dean 2017, "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer",
    without its noise). With k = M it is `modular`. With k = 1, p is 1 and no score has a gradient.

    Args:
        modules: M; R by default.
        k: from 1 to M.
    """

    needs_scores = True
    tunable = ("k=2,3,4,8",)

    def __init__(self, setup: RouterSetup, *, modules: int | None = None, k: int = 2):
        super().__init__(setup, modules=modules)
        self.k = self.check_chosen(k)

    def call(self, rule=None, rule_features=None, scores=None):
        return softmax_among(largest(scores, self.k), scores)
