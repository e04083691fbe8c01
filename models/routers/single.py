"""`monolithic`: one module that is always active."""

from keras import ops

from modtf.models.routers.base import Router


class SingleModule(Router):
    @staticmethod
    def num_modules(num_rules: int) -> int:
        return 1

    def call(self, rule=None, rule_features=None, scores=None):
        return ops.ones_like(rule[:, :1])
