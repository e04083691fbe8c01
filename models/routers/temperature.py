"""The router `temperature`."""

from modtf.base.checks import check_number
from modtf.models.kernels.sums import softmax
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup


@register_router("temperature")
class Temperature(Router):
    """The softmax of the scores over a temperature (Hinton, Vinyals, Dean 2015, "Distilling the Knowledge in
    a Neural Network"). At 1 it is `modular`; it is sharper below and flatter above. The temperature is
    constant; `annealed` changes it.

    Args:
        modules: M; R by default.
        temperature: from 0.001 to 1000.
    """

    needs_scores = True
    tunable = ("temperature=0.1:10:log",)

    def __init__(self, setup: RouterSetup, *, modules: int | None = None, temperature: float = 0.5):
        super().__init__(setup, modules=modules)
        self.temperature = check_number("temperature", temperature, 1e-3, 1e3)

    def call(self, rule=None, rule_features=None, scores=None):
        return softmax(scores / self.temperature)
