"""`modular`: each module scores itself from the token and the rule."""

from modtf.models.routers.base import Router
from modtf.models.kernels.sums import softmax, softmax_gradient


class SelfScored(Router):
    needs_scores = True
    sees_only_rule = False
    scores_gradient = staticmethod(softmax_gradient)

    def call(self, rule=None, rule_features=None, scores=None):
        return softmax(scores)
