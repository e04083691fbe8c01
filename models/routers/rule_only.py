"""`modular_op`: a learned function of the rule alone."""

from typing import Any

from modtf.models.kernels.sums import softmax
from modtf.models.layers import Dense, TwoLayer
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup


@register_router("modular_op")
class RuleOnly(Router):
    """The softmax of one dense layer on the rule's features, or of two where these are not learned."""

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
