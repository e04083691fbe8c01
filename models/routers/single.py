"""`monolithic`: one module that is always active."""

from keras import ops

from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup


@register_router("monolithic")
class SingleModule(Router):
    """p = 1: no module is chosen."""

    depends_only_on_rule = True

    def __init__(self, setup: RouterSetup):
        super().__init__(setup, modules=1)

    def call(self, rule=None, rule_features=None, scores=None):
        return ops.ones_like(rule[:, :1])
