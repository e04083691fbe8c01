"""The router `z_loss`."""

from keras import ops

from modtf.base.checks import check_number
from modtf.models.kernels.sums import softmax
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup


@register_router("z_loss")
class ZLoss(Router):
    """The softmax of the scores, as in `modular`, with a penalty on large scores.

    The penalty is `strength` times the mean over tokens of the square of log(sum_m exp(score_m)) (Zoph,
    Bello, Kumar, Du, Huang, Dean, Shazeer, Fedus 2022, "ST-MoE: Designing Stable and Transferable Sparse
    Expert Models"). The paper adds it to a load-balancing loss of sparse experts, for stability. Here it is
    the only penalty, so that its effect is visible.

    Args:
        modules: M; R by default.
        strength: the factor of the penalty, from 0 to 1e6; 0.001 in the paper.
    """

    needs_scores = True
    penalty_name = "router_z"
    penalises_scores = True

    def __init__(self, setup: RouterSetup, *, modules: int | None = None, strength: float = 0.001):
        super().__init__(setup, modules=modules)
        self.strength = check_number("strength", strength, 0.0, 1e6)

    def call(self, rule=None, rule_features=None, scores=None):
        return softmax(scores)

    def penalty(self, activation, scores=None):
        return self.strength * ops.mean(ops.square(ops.logsumexp(scores, axis=1)), axis=1)
