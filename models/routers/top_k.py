"""Routers of a fixed number of choices: `top_k` by tokens, `expert_choice` by modules."""

from keras import ops

from modtf.base.checks import check_number
from modtf.models.kernels.sums import largest, softmax, softmax_among
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup, whole_batch


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

    @property
    def learns(self) -> bool:
        return self.k > 1

    def call(self, rule=None, rule_features=None, scores=None):
        return softmax_among(largest(scores, self.k), scores)


LEFT_OUT = -1e30  # logarithm of a share that is 0


@register_router("expert_choice")
class ExpertChoice(Router):
    """A router where every module takes the `capacity` * T / M tokens with its largest softmax shares in a
    batch.

    A token's p are the shares of the modules that took it, divided by their sum (Zhou, Lei, Liu, Du, Huang,
    Zhao, Dai, Chen, Le, Laudon 2022, "Mixture-of-Experts with Expert Choice Routing"). All modules take
    equally many tokens in every batch. The paper leaves a token that no module took to the residual
    connection, and does not divide. Here p sums to 1, and such a token keeps the whole softmax. A token's p
    depends on its batch, in evaluation, too. A recurrence therefore rejects this router, and `adaptation` is
    sampled.

    Args:
        modules: M; R by default.
        capacity: modules per token on average, above 0, at most M; 2 in the paper.
    """

    needs_scores = True
    sees_batch = True

    def __init__(self, setup: RouterSetup, *, modules: int | None = None, capacity: float = 2.0):
        super().__init__(setup, modules=modules)
        self.capacity = check_number("capacity", capacity, 1e-3, self.num_modules)

    def call(self, rule=None, rule_features=None, scores=None, extra=None):
        logs = ops.log_softmax(scores, axis=1)  # a share may round to 0, its logarithm does not
        of_batch = whole_batch(ops.stop_gradient(logs))
        num_tokens = ops.shape(of_batch)[2]
        # in this order a whole number of tokens stays one
        taken = ops.cast(ops.cast(num_tokens, "float32") * self.capacity / self.num_modules, "int32")
        taken = ops.clip(taken, 1, num_tokens)
        order = ops.sort(of_batch, axis=2)
        least = ops.take(order, ops.reshape(num_tokens - taken, [1]), axis=2)
        chosen = logs >= least
        nobody = ops.logical_not(ops.any(chosen, axis=1, keepdims=True))
        return softmax(ops.where(ops.logical_or(chosen, nobody), logs, LEFT_OUT))
