"""The router `switch`."""

from keras import ops

from modtf.checks import check_number
from modtf.models.kernels.choice import largest
from modtf.models.kernels.sums import softmax
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup


@register_router("switch")
class Switch(Router):
    """p is 1 for the module of the largest score; scores learn as if p were their softmax, and uneven use has
    a price (Fedus, Zoph, Shazeer 2022, "Switch Transformers: Scaling to Trillion Parameter Models with Simple
    and Efficient Sparsity").

    The penalty is `strength` * M * sum_m f_m P_m, with f_m the share of a batch's tokens that module m got
    and P_m its mean probability: its gradient is the paper's, its value that with f_m for P_m, which p alone
    shows. Even use costs `strength`, a single module M times that.

    No module has a capacity, and no token is dropped. The paper weighs the chosen answer with its
    probability, and learns from it alone; here p has the sum 1, and the gradient asks all modules' answers
    what they would have changed: it passes straight through the choice (Bengio, Léonard, Courville 2013,
    "Estimating or Propagating Gradients Through Stochastic Neurons for Conditional Computation").

    Args:
        modules: M; R by default.
        strength: of the penalty, from 0 to 1e6; 0.01 in the paper.
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
