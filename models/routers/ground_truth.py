"""`gt_modular`: the oracle, module c for rule c."""

from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup


@register_router("gt_modular")
class GroundTruth(Router):
    """p is the rule as one-hot; there is one module per rule."""

    depends_only_on_rule = True

    def __init__(self, setup: RouterSetup):
        super().__init__(setup)

    def call(self, rule=None, rule_features=None, scores=None):
        return rule
