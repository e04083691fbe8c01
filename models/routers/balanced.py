"""`balanced`: how many modules share a token, and what keeps them in even use, apart from each other."""

import numpy as np
from keras import ops

from modtf.checks import check_choice, check_number
from modtf.models.kernels.choice import largest, softmax_among, underused
from modtf.models.kernels.sums import softmax
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup, replica_context

BALANCES = ("none", "auxiliary", "bias")
SCOPES = ("batch", "sequence")


@register_router("balanced")
class Balanced(Router):
    """The softmax over the scores of the k chosen modules; scores learn as if p were the softmax of all.

    One estimator for every k, straight through the choice (Bengio, Léonard, Courville 2013): models of two k
    differ in k alone. With k = M it is `modular`, with k = 1 and `auxiliary` it is `switch`. All modules are
    computed, whatever k.

    Args:
        modules: M; R by default.
        k: from 1 to M, which is the default.
        balance: "auxiliary": the penalty `strength` * M * sum_m f_m P_m, f and P the mean p over the scope, f
            without a gradient (Fedus, Zoph, Shazeer 2022). "bias": the k largest of softmax plus a bias are
            chosen; after every training step it rises by `rate` where fewer tokens than the mean chose the
            module, and falls where more did (Wang et al. 2024); k is below M then. "none".
        strength: of the penalty, from 0 to 1e6.
        rate: of the bias, from 0 to 1.
        scope: of the penalty: the whole "batch"; or every "sequence" (example) by itself, and their mean. An
            example of the mlp is one token, which would be asked to spread over the modules.
    """

    needs_scores = True
    penalty_name = "load_balancing"
    tunable = ("strength=0.0001:1:log", "rate=0.0001:0.1:log")

    def __init__(
        self,
        setup: RouterSetup,
        *,
        modules: int | None = None,
        k: int | None = None,
        balance: str = "none",
        strength: float = 0.01,
        rate: float = 0.001,
        scope: str = "batch",
    ):
        super().__init__(setup, modules=modules)
        self.k = self.num_modules if k is None else self.check_chosen(k)
        check_choice("balance", balance, BALANCES)
        check_choice("scope", scope, SCOPES)
        self.balance, self.scope = balance, scope
        self.strength = check_number("strength", strength, 0.0, 1e6) * (balance == "auxiliary")
        self.rate = check_number("rate", rate, 0.0, 1.0)
        if balance == "bias":
            if self.k == self.num_modules:
                raise ValueError(f"balance='bias' changes which modules are chosen; k={self.k} chooses all.")
            self.bias = self.keep("bias", np.zeros([self.num_members, self.num_modules, 1]))

    def extra_input(self, rule, training):
        return ops.convert_to_tensor(self.bias) if self.balance == "bias" else None

    def call(self, rule=None, rule_features=None, scores=None, extra=None):
        shares = softmax(scores)
        if self.k == self.num_modules:
            return shares
        chosen = largest(shares if extra is None else shares + extra, self.k)
        p = softmax_among(chosen, ops.stop_gradient(scores))
        return p + (shares - ops.stop_gradient(shares))  # exactly p

    def penalty(self, activation):
        used = ops.mean(activation, axis=2, keepdims=True)
        if self.scope == "sequence":  # tokens lie [replicas, N, B]
            replica, own = replica_context(), ops.cast(self._batch_size, "int32")
            shared_by = 1 if replica is None else replica.num_replicas_in_sync
            by_example = ops.reshape(activation, [*activation.shape[:2], shared_by, -1, own])
            used = ops.reshape(ops.mean(by_example, axis=3), [*activation.shape[:2], -1])
        uneven = ops.sum(ops.stop_gradient(used) * used, axis=1)
        return self.strength * self.num_modules * ops.mean(uneven, axis=1)

    def advance(self, activation):
        if self.balance == "bias":
            self.bias.assign(self.bias + self.rate * underused(activation, self.bias.dtype))
