"""`uniform`: no choice is made, as with tokens sent to modules at random (Zuo, Liu, Jiao, Kim, Hassan, Zhang,
Gao, Zhao 2022, "Taming Sparsely Activated Transformer with Stochastic Experts")."""

from keras import ops

from modtf.models.routers import register_router
from modtf.models.routers.base import Router


@register_router("uniform")
class Uniform(Router):
    """p = 1 / M: what a random choice is on average, without its noise. What modules learn then, no routing
    taught them.

    Args:
        modules: M; R by default.
    """

    depends_only_on_rule = True

    def call(self, rule=None, rule_features=None, scores=None):
        return ops.tile(ops.ones_like(rule[:, :1]) / self.num_modules, [1, self.num_modules, 1])
