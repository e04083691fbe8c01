"""`modular`: each module scores itself from the token and the rule."""

from modtf.models.kernels.sums import softmax
from modtf.models.routers import register_router
from modtf.models.routers.base import Router


@register_router("modular")
class SelfScored(Router):
    """The softmax of the scores."""

    needs_scores = True

    def call(self, rule=None, rule_features=None, scores=None):
        return softmax(scores)
