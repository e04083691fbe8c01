"""The router `cosine`."""

from keras import ops

from modtf.base.checks import check_integer, check_number
from modtf.models.kernels.sums import softmax
from modtf.models.layers import Dense, MemberLayer
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup

EPSILON = 1e-12  # of a square: a token whose scores are all 0 has no direction


@register_router("cosine")
class Cosine(Router):
    """The softmax of the cosines between a token and each module's embedding, over a learned temperature
    (Chi, Dong, Huang, Dai, Ma, Patra, Singhal, Bajaj, Song, Mao, Huang, Wei 2022, "On the Representation
    Collapse of Sparse Mixture of Experts").

    The token is the vector of its M scores, projected to a few dimensions. The paper projects the token's own
    features, which architectures do not pass to routers, and chooses one module. The router has weights, so
    the rnn runs it step by step.

    Args:
        modules: M; R by default.
        dimensions: the number of dimensions of the embeddings.
        temperature: the initial value of the learned temperature, from 0.001 to 1000. Every member starts
            from it times its own factor, between exp(-1/sqrt(M)) and exp(1/sqrt(M)).
    """

    needs_scores = True
    tunable = ("temperature=0.03:3:log", "dimensions=4,8,16")

    def __init__(
        self, setup: RouterSetup, *, modules: int | None = None, dimensions: int = 8, temperature: float = 0.3
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


def normalise(x):
    """Scale vectors in axis 1 of [P, k, ...] to length 1."""
    return x * ops.rsqrt(ops.maximum(ops.sum(ops.square(x), axis=1, keepdims=True), EPSILON))
