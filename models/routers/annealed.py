"""The router `annealed`."""

import math

import numpy as np
from keras import ops

from modtf.base.checks import check_integer, check_number
from modtf.models.kernels.sums import softmax
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup


@register_router("annealed")
class Annealed(Router):
    """The softmax of the scores over a temperature that goes exponentially from `start` to `end`.

    It takes `steps` training steps and then stays at `end` (Jang, Gu, Poole 2017, "Categorical
    Reparameterization with Gumbel-Softmax", without its noise). Evaluation uses the temperature of the
    current step.

    Args:
        modules: M; R by default.
        start, end: temperatures, from 0.001 to 1000.
        steps: at least 1. A training with fewer steps does not reach `end`.
    """

    needs_scores = True

    def __init__(
        self,
        setup: RouterSetup,
        *,
        modules: int | None = None,
        start: float = 2.0,
        end: float = 0.1,
        steps: int = 10_000,
    ):
        super().__init__(setup, modules=modules)
        self.start, self.end = check_number("start", start, 1e-3, 1e3), check_number("end", end, 1e-3, 1e3)
        self.steps = check_integer("steps", steps, 1)
        self.step = self.keep("step", np.zeros([self.num_members]), "int32")

    def extra_input(self, rule, training):
        done = ops.minimum(ops.cast(self.step, rule.dtype) / self.steps, 1.0)
        temperature = self.start * ops.exp(math.log(self.end / self.start) * done)
        return temperature[:, None, None]

    def call(self, rule=None, rule_features=None, scores=None, extra=None):
        return softmax(scores / extra)

    def advance(self, activation):
        self.step.assign(self.step + 1)
