"""The published routers, from least to most informed (`monolithic`, `modular`, `modular_op`, `gt_modular`),
and the uninformed `uniform`."""

from typing import Any

from keras import ops

from modtf.models.kernels.sums import softmax
from modtf.models.layers import Dense, TwoLayer
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup


@register_router("monolithic")
class SingleModule(Router):
    """`monolithic`: p = 1, one module that is always active."""

    depends_only_on_rule = True

    def __init__(self, setup: RouterSetup):
        super().__init__(setup, modules=1)

    def call(self, rule=None, rule_features=None, scores=None):
        return ops.ones_like(rule[:, :1])


@register_router("modular")
class SelfScored(Router):
    """`modular`: the softmax of each module's score of itself, from the token and the rule."""

    needs_scores = True

    def call(self, rule=None, rule_features=None, scores=None):
        return softmax(scores)


@register_router("modular_op")
class RuleOnly(Router):
    """`modular_op`: the softmax of one dense layer on the rule's features, or of two if these are not
    learned."""

    depends_only_on_rule = True

    def __init__(self, setup: RouterSetup, *, modules: int | None = None):
        super().__init__(setup, modules=modules)
        initial, width, outputs, name = setup.initial, setup.width, self.num_modules, f"{setup.name}_logits"
        options: dict[str, Any] = {"use_bias": setup.use_bias, "dtype": setup.dtype}
        if setup.hidden is None:
            self.logits = Dense(initial, width, outputs, name, **options)
        else:
            self.logits = TwoLayer(initial, width, setup.hidden(outputs), outputs, name, **options)

    def call(self, rule=None, rule_features=None, scores=None):
        return softmax(self.logits(rule_features))


@register_router("gt_modular")
class GroundTruth(Router):
    """`gt_modular`, the oracle: p is the one-hot rule, module c for rule c."""

    depends_only_on_rule = True

    def __init__(self, setup: RouterSetup):  # it has no options
        super().__init__(setup)

    def call(self, rule=None, rule_features=None, scores=None):
        return rule


@register_router("uniform")
class Uniform(Router):
    """p = 1 / M, the average of random routing without its noise, as with tokens sent to modules at
    random (Zuo, Liu, Jiao, Kim, Hassan, Zhang, Gao, Zhao 2022, "Taming Sparsely Activated Transformer with
    Stochastic Experts"). Modules then learn without any information from the routing.

    Args:
        modules: M; R by default.
    """

    depends_only_on_rule = True

    def call(self, rule=None, rule_features=None, scores=None):
        return ops.tile(ops.ones_like(rule[:, :1]) / self.num_modules, [1, self.num_modules, 1])
