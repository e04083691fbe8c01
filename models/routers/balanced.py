"""Routers that balance the load of modules: `switch`, `z_loss`, `bias_balanced`, `balanced`."""

import numpy as np
from keras import ops

from modtf.base.checks import check_choice, check_number
from modtf.models.kernels.sums import largest, softmax, softmax_among, underused
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup, replica_context


@register_router("switch")
class Switch(Router):
    """A router where p is 1 for the module with the largest score, and uneven load is penalised.

    Scores learn as if p were their softmax (Fedus, Zoph, Shazeer 2022, "Switch Transformers: Scaling to
    Trillion Parameter Models with Simple and Efficient Sparsity"). The penalty is `strength` * M * sum_m f_m
    P_m, with f_m the share of a batch's tokens in module m and P_m its mean probability. Its gradient is the
    paper's; its value uses f_m for P_m, because p alone shows f. Even load costs `strength`, a single module
    M times as much.

    No module has a capacity, and no token is dropped. The paper multiplies the chosen answer by its
    probability, and learns from that answer alone. Here p sums to 1, and the gradient uses the answers of all
    modules: it passes straight through the choice (Bengio, Léonard, Courville 2013, "Estimating or
    Propagating Gradients Through Stochastic Neurons for Conditional Computation").

    Args:
        modules: M; R by default.
        strength: the factor of the penalty, from 0 to 1e6; 0.01 in the paper.
    """

    needs_scores = True
    penalty_name = "load_balancing"
    tunable = ("strength=0.0001:1:log",)

    def __init__(self, setup: RouterSetup, *, modules: int | None = None, strength: float = 0.01):
        super().__init__(setup, modules=modules)
        self.strength = check_number("strength", strength, 0.0, 1e6)

    def call(self, rule=None, rule_features=None, scores=None):
        shares = softmax(scores)
        return largest(scores) + (shares - ops.stop_gradient(shares))  # exactly 0 and 1

    def penalty(self, activation):
        used = ops.mean(activation, axis=2)
        return self.strength * self.num_modules * ops.sum(ops.stop_gradient(used) * used, axis=1)


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

    @property
    def learns(self) -> bool:
        return self.k > 1

    def extra_input(self, rule, training):
        return ops.convert_to_tensor(self.bias)

    def call(self, rule=None, rule_features=None, scores=None, extra=None):
        chosen = largest(softmax(scores) + extra, self.k)
        return softmax_among(chosen, scores)

    def advance(self, activation):
        self.bias.assign(self.bias + self.rate * underused(activation, self.bias.dtype))


BALANCES = ("none", "auxiliary", "bias")
SCOPES = ("batch", "sequence")
STRENGTH, RATE = 0.01, 0.001


@register_router("balanced")
class Balanced(Router):
    """The softmax over the scores of the k chosen modules. Scores learn as if p were the softmax of all.

    One estimator serves every k, straight through the choice (Bengio, Léonard, Courville 2013), so two models
    can differ in k alone. With k = M it is `modular`; with k = 1 and `auxiliary` it is `switch`. All modules
    are computed, whatever k. With `shared` the first module has half of every token's weight, as a shared
    expert (Dai et al. 2024, "DeepSeekMoE"); the others are routed among themselves.

    Args:
        modules: M; R by default.
        k: from 1 to the number of routed modules, which is the default.
        balance: "auxiliary": the penalty `strength` * M * sum_m f_m P_m, where f and P are the mean p over
            the scope and f has no gradient (Fedus, Zoph, Shazeer 2022). "bias": the k largest of softmax plus
            a bias are chosen. After every training step the bias rises by `rate` for modules that fewer
            tokens chose than the mean, and falls by it for those that more chose (Wang et al. 2024). It needs
            k < M. "none": no balancing.
        strength: of "auxiliary": the factor of the penalty, from 0 to 1e6.
        rate: of "bias": the step of the bias, from 0 to 1.
        scope: of "auxiliary": the tokens of one penalty: the whole "batch", or every "sequence" (example) by
            itself, averaged. An example of the mlp is one token, which would have to spread over the modules.
        shared: whether the first of the M modules is active for every token.
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
        strength: float = STRENGTH,
        rate: float = RATE,
        scope: str = SCOPES[0],
        shared: bool = False,
    ):
        super().__init__(setup, modules=modules)
        check_choice("shared", shared, (True, False))
        self.shared = int(shared)
        self.routed = self.num_modules - self.shared
        if self.routed < 1:
            raise ValueError("shared=True leaves no module to route to. Choose at least 2 modules.")
        self.k = self.routed if k is None else self.check_chosen(k, self.routed)
        check_choice("balance", balance, BALANCES)
        check_choice("scope", scope, SCOPES)
        self.balance, self.scope = balance, scope
        self.strength = check_number("strength", strength, 0.0, 1e6) * (balance == "auxiliary")
        self.rate = check_number("rate", rate, 0.0, 1.0)
        for name, value, usual, needed in (
            ("strength", strength, STRENGTH, "auxiliary"),
            ("scope", scope, SCOPES[0], "auxiliary"),
            ("rate", rate, RATE, "bias"),
        ):
            if value != usual and balance != needed:
                raise ValueError(
                    f"{name}={value!r} has a meaning for balance={needed!r} only, and balance={balance!r}. "
                    "Leave it out."
                )
        if balance == "bias":
            if self.k == self.routed:
                raise ValueError(
                    f"balance='bias' changes which modules are chosen, but k={self.k} chooses all of them. "
                    "Choose a smaller k or another balance."
                )
            self.bias = self.keep("bias", np.zeros([self.num_members, self.routed, 1]))

    def extra_input(self, rule, training):
        return ops.convert_to_tensor(self.bias) if self.balance == "bias" else None

    def call(self, rule=None, rule_features=None, scores=None, extra=None):
        if not self.shared:
            return self._routed(scores, extra)
        p = self._routed(scores[:, 1:], extra)
        return ops.concatenate([ops.ones_like(p[:, :1]), p], axis=1) / 2

    def _routed(self, scores, extra):
        shares = softmax(scores)
        if self.k == self.routed:
            return shares
        chosen = largest(shares if extra is None else shares + extra, self.k)
        p = softmax_among(chosen, ops.stop_gradient(scores))
        return p + (shares - ops.stop_gradient(shares))  # exactly p

    def penalty(self, activation):
        activation = self._of_routed(activation)
        used = ops.mean(activation, axis=2, keepdims=True)
        if self.scope == "sequence":  # tokens have the order [replicas, N, B]
            replica, own = replica_context(), ops.cast(self._batch_size, "int32")
            shared_by = 1 if replica is None else replica.num_replicas_in_sync
            by_example = ops.reshape(activation, [*activation.shape[:2], shared_by, -1, own])
            used = ops.reshape(ops.mean(by_example, axis=3), [*activation.shape[:2], -1])
        uneven = ops.sum(ops.stop_gradient(used) * used, axis=1)
        return self.strength * self.routed * ops.mean(uneven, axis=1)

    def advance(self, activation):
        if self.balance == "bias":
            self.bias.assign(self.bias + self.rate * underused(self._of_routed(activation), self.bias.dtype))

    def _of_routed(self, activation):
        """Return p among the routed modules."""
        return 2 * activation[:, 1:] if self.shared else activation
