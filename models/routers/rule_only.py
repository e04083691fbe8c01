"""`modular_op`: a learned function of the rule alone."""

from typing import Any

from modtf.models.initial import InitialWeights
from modtf.models.layers import Dense, TwoLayer
from modtf.models.routers.base import Router, RouterInput
from modtf.models.kernels.sums import softmax


class RuleOnly(Router):
    def __init__(self, initial: InitialWeights, num_rules: int, offered: RouterInput, dtype: Any = None):
        super().__init__(initial, num_rules, offered, dtype)
        options: dict[str, Any] = {"use_bias": offered.use_bias, "dtype": dtype}
        if offered.hidden is None:
            self.logits = Dense(initial, offered.width, num_rules, "router_logits", **options)
        else:
            self.logits = TwoLayer(
                initial, offered.width, offered.hidden, num_rules, "router_logits", **options
            )

    def call(self, rule=None, rule_features=None, scores=None):
        return softmax(self.logits(rule_features))
