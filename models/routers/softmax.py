"""Routers that weigh all modules, by a softmax."""

import math

import numpy as np
from keras import ops

from modtf.checks import check_integer, check_number
from modtf.models.kernels.sums import softmax
from modtf.models.layers import Dense, MemberLayer
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup

EPSILON = 1e-12  # of a square: a token whose scores are all 0 has no direction


@register_router("temperature")
class Temperature(Router):
    """The softmax of the scores over a temperature (Hinton, Vinyals, Dean 2015, "Distilling the Knowledge in
    a Neural Network"): `modular` is 1, below it is sharper, above it flatter. It stays: `annealed` changes
    it.

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
    """The softmax of the scores over a temperature that goes from `start` to `end` in `steps` training steps,
    exponentially, and stays there (Jang, Gu, Poole 2017, "Categorical Reparameterization with
    Gumbel-Softmax", without its noise). Evaluation takes the temperature of the step reached.

    Args:
        modules: M; R by default.
        start, end: temperatures, from 0.001 to 1000.
        steps: at least 1; those of the protocol, or fewer.
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


def normalise(x):
    """Vectors in axis 1 of [P, k, ...], to length 1."""
    return x * ops.rsqrt(ops.maximum(ops.sum(ops.square(x), axis=1, keepdims=True), EPSILON))


@register_router("cosine")
class Cosine(Router):
    """The softmax of the cosines between a token and each module's embedding, over a learned temperature
    (Chi, Dong, Huang, Dai, Ma, Patra, Singhal, Bajaj, Song, Mao, Huang, Wei 2022, "On the Representation
    Collapse of Sparse Mixture of Experts").

    The token is the vector of its M scores, projected to a few dimensions: the paper projects the token's
    own features, which architectures do not hand to routers, and chooses one module. It has weights: the rnn
    runs it step by step.

    Args:
        modules: M; R by default.
        dimensions: of the embeddings.
        temperature: about which the learned one starts, from 0.001 to 1000.
    """

    needs_scores = True
    tunable = ("temperature=0.03:3:log", "dimensions=4,8,16")

    def __init__(
        self,
        setup: RouterSetup,
        *,
        modules: int | None = None,
        dimensions: int = 8,
        temperature: float = 0.3,
    ):
        super().__init__(setup, modules=modules)
        initial, count, dtype = setup.initial, self.num_modules, setup.dtype
        size = check_integer("dimensions", dimensions, 1)
        self.temperature = check_number("temperature", temperature, 1e-3, 1e3)
        self.projection = Dense(initial, count, size, f"{setup.name}_projection", use_bias=False, dtype=dtype)
        self.embeddings = Dense(initial, size, count, f"{setup.name}_embeddings", use_bias=False, dtype=dtype)
        self.sharpness = MemberLayer(initial, f"{setup.name}_sharpness", dtype)
        self.log_sharpness = self.sharpness.uniform("log", [1, 1], count)

    def call(self, rule=None, rule_features=None, scores=None):
        token = normalise(self.projection(scores))
        embeddings = ops.transpose(normalise(ops.transpose(self.embeddings.kernel, [0, 2, 1])), [0, 2, 1])
        cosines = ops.matmul(embeddings, token)
        return softmax(cosines * ops.exp(self.log_sharpness) / self.temperature)


@register_router("z_loss")
class ZLoss(Router):
    """The softmax of the scores, as `modular`; the penalty is `strength` times the mean over tokens of the
    square of log(sum_m exp(score_m)) (Zoph, Bello, Kumar, Du, Huang, Dean, Shazeer, Fedus 2022, "ST-MoE:
    Designing Stable and Transferable Sparse Expert Models").

    The paper adds it to a load-balancing loss of sparse experts, for stability; here it stands alone, so that
    what it does is seen.

    Args:
        modules: M; R by default.
        strength: of the penalty, from 0 to 1e6; 0.001 in the paper.
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
