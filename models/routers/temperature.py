"""Routers whose distribution has a temperature: `temperature`, `annealed`, `gumbel`."""

import math

import numpy as np
from keras import ops

from modtf.base.checks import check_integer, check_number
from modtf.models.initial import noise_keys
from modtf.models.kernels.noise import uniform_noise
from modtf.models.kernels.sums import largest, softmax
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup


@register_router("temperature")
class Temperature(Router):
    """The softmax of the scores over a temperature (Hinton, Vinyals, Dean 2015, "Distilling the Knowledge in
    a Neural Network"). At 1 it is `modular`; it is sharper below and flatter above. The temperature is
    constant; `annealed` changes it.

    Args:
        modules: M; R by default.
        temperature: from 0.001 to 1000.
    """

    needs_scores = True
    tunable = ("temperature=0.1:10:log",)

    def __init__(self, setup: RouterSetup, *, modules: int | None = None, temperature: float = 0.5):
        super().__init__(setup, modules=modules)
        self.temperature = check_number("temperature", temperature, 1e-3, 1e3)

    def call(self, rule=None, rule_features=None, scores=None):
        return softmax(scores / self.temperature)


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


@register_router("gumbel")
class Gumbel(Router):
    """A router where p is 1 for the module with the largest score plus Gumbel noise.

    This samples from the softmax of the scores. Scores learn as if p were the softmax of the noisy scores
    over a temperature, straight through (Jang, Gu, Poole 2017, "Categorical Reparameterization with
    Gumbel-Softmax"; Maddison, Mnih, Teh 2017, "The Concrete Distribution"). There is noise in training only.
    Each number depends on (task, seed, step, token, module), whichever replica has the token. In evaluation p
    is 1 for the largest score.

    Args:
        modules: M, at most 127; R by default.
        temperature: the temperature of the gradient, from 0.001 to 1000.
    """

    needs_scores = True

    def __init__(self, setup: RouterSetup, *, modules: int | None = None, temperature: float = 1.0):
        super().__init__(setup, modules=modules)
        self.temperature = check_number("temperature", temperature, 1e-3, 1e3)
        check_number("modules", self.num_modules, 1, 127)
        self.key = self.keep("key", noise_keys(setup.initial, setup.name), "int32")
        self.step = self.keep("step", np.zeros([self.num_members]), "int32")

    def extra_input(self, rule, training):
        if not training:
            return None
        uniform = uniform_noise(self.key, self.step, self.num_modules, self.token_numbers(ops.shape(rule)[2]))
        return -ops.log(-ops.log(uniform))

    def call(self, rule=None, rule_features=None, scores=None, extra=None):
        noisy = scores if extra is None else scores + extra
        shares = softmax(noisy / self.temperature)
        return largest(noisy) + (shares - ops.stop_gradient(shares))  # exactly 0 and 1

    def advance(self, activation):
        self.step.assign(self.step + 1)
