"""A model with routers: one, or one at each of several places."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from modtf.models.boundary import by_example, by_module
from modtf.models.initial import InitialWeights
from modtf.models.options import options_of
from modtf.models.routers import ROUTERS, make_router
from modtf.models.routers.base import Router, RouterSetup
from modtf.models.routers.first_call import check_on_tokens
from modtf.observed import Place, at_place
from modtf.population import Population


class RoutedModel(keras.Model):
    """What a `ModularModel` asks its routers by."""

    #: without one, a model is of one member alone, and the members of a cell train one after the other
    has_members_axis: ClassVar[bool] = True

    _routers_are_sound = False  # what `check_routers` found

    router: Router
    population: Population
    variant: str
    num_rules: int
    initial: InitialWeights
    router_options: Mapping[str, Any]

    def make_router(
        self,
        rule_width: int,
        hidden: Callable[[int], int] | None = None,
        use_bias: bool = True,
        place: str = "",
        modules: int | None = None,
    ) -> Router:
        """The router of this model's variant.

        Args:
            rule_width: of the features of the rule that `route` will get.
            hidden, use_bias: see `RouterSetup`.
            place: the name of a place of the family's; "" where there is only one.
            modules: M, where a router leaves it free and its options do not say it; R by default.
        """
        task, name = self.population.task, at_place("router", place)
        rules, dtype = self._place(place).num_rules, self.variable_dtype
        setup = RouterSetup(self.initial, rules, rule_width, hidden, use_bias, dtype, name)
        runs, options = str(task.family.variant(self.variant).router), self.router_options
        if modules is not None and "modules" in options_of(ROUTERS[runs], "__init__", skip=2):
            options = {"modules": modules, **options}
        router = make_router(runs, setup, options)
        if place:
            setattr(self, name, router)
        return router

    def check_routers(self) -> None:
        """Raises `ValueError`, once and for all, where p of a router cannot be one, see `check_on_tokens`."""
        if not self._routers_are_sound:
            for router in self.routers.values():
                check_on_tokens(router, self.variant)
            self._routers_are_sound = True

    def _place(self, name: str) -> Place:
        return self.population.task.places.get(name) or Place(name, self.num_rules)

    @property
    def routers(self) -> dict[str, Router]:
        """By the name of their place."""
        names = ("", *self.population.task.places)
        found = {place: getattr(self, at_place("router", place), None) for place in names}
        return {place: router for place, router in found.items() if isinstance(router, Router)}

    def route(self, rule, rule_features=None, scores: Callable[[], Any] | None = None, place: str = ""):
        """Asks the router for p [P, M, T]; or [B, N, M], and so all else, without members axis.

        Args:
            rule: one-hot, [P, R, T]; int [B, N] without members axis.
            rule_features: what the model makes of it, [P, F, T]; the rule itself by default.
            scores: gives what every module scores itself with, [P, M, T]; called if the router needs it.
            place: whose router.
        """
        return self.route_with_scores(rule, rule_features, scores, place)[0]

    def route_with_scores(
        self, rule, rule_features=None, scores: Callable[[], Any] | None = None, place: str = ""
    ):
        """As `route`; p and the scores, None if the router does not need them."""
        router = self.routers[place]
        own = scores() if scores is not None and router.needs_scores else None
        if self.has_members_axis:
            return router.route(rule, rule if rule_features is None else rule_features, own), own
        rows = ops.convert_to_tensor(self._place(place).rows(self.num_rules))
        one_hot = by_module(ops.one_hot(ops.take(rows, rule), router.num_rules, dtype=router.dtype))
        features, priced = (None if x is None else by_module(x) for x in (rule_features, own))
        p = router.route(one_hot, one_hot if features is None else features, priced)
        return by_example(p, rule.shape[1]), own

    @property
    def num_modules(self) -> int:
        """M, of the first place; 1 where there is no router."""
        return next((router.num_modules for router in self.routers.values()), 1)

    def priced(self, place: str, scores: Mapping[str, Any]) -> list[Any]:
        """The scores, in a list, where the router puts a price on them."""
        if not self.routers[place].penalises_scores:
            return []
        if scores.get(place) is None:
            raise ValueError(
                f"{type(self).__name__}.forward returns (outputs, p), but variant={self.variant!r} puts a "
                "price on scores: return (outputs, p, scores), p and scores from self.route_with_scores(...)."
            )
        return [scores[place]]
