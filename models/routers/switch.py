"""The router `switch`."""

from keras import ops

from modtf.base.checks import check_number
from modtf.models.kernels.choice import largest
from modtf.models.kernels.sums import softmax
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup


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
