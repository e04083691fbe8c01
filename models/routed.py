"""A model with routers: one, or one for each of several routed layers."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from modtf.base.registry import options_of
from modtf.models.boundary import by_example, by_module
from modtf.models.initial import InitialWeights
from modtf.models.routers import ROUTERS, make_router
from modtf.models.routers.base import Router, RouterSetup
from modtf.tasks.families.varied import option_of
from modtf.tasks.observed import Place, at_place
from modtf.tasks.population import Population

TOKENS = 8  # per member
TOLERANCE = 1e-3  # of p


class RoutedModel(keras.Model):
    """The part of a `ModularModel` that calls its routers."""

    #: without a members axis a model has one member, and the members of a cell train one after the other
    has_members_axis: ClassVar[bool] = True

    trained_on: Population | None = None  # set by `modtf.train`

    _routers_are_sound = False  # set by `check_routers`

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
        """Make the router of this model's variant, see `RouterSetup`, for a routed layer of the family.

        If the router leaves the number of modules free and its options do not set it, it gets `modules`, or
        R.
        """
        task, name = self.population.task, at_place("router", place)
        rules, dtype = self._place(place).num_rules, self.variable_dtype
        setup = RouterSetup(
            self.initial, rules, rule_width, hidden, use_bias, dtype, name,
            rule_is_hidden=bool(option_of(task, "hidden")),
            token_width=task.token_width if self.has_members_axis and task.family.inputs_by_token else None,
            num_ids=task.family.num_ids(task),
        )  # fmt: skip
        runs, options = str(task.family.variant(self.variant).router), self.router_options
        if modules is not None and "modules" in options_of(ROUTERS[runs], "__init__", skip=2):
            options = {"modules": modules, **options}
        router = make_router(runs, setup, options)
        if place:
            setattr(self, name, router)
        return router

    def check_routers(self) -> None:
        """Raise `ValueError`, once, if p of a router is not a distribution; see `check_on_tokens`."""
        if not self._routers_are_sound:
            for router in self.routers.values():
                check_on_tokens(router, self.variant)
            self._routers_are_sound = True

    def _place(self, name: str) -> Place:
        return self.population.task.places.get(name) or Place(name, self.num_rules)

    @property
    def routers(self) -> dict[str, Router]:
        """The routers by the name of their routed layer."""
        names = ("", *self.population.task.places)
        routers = {place: getattr(self, at_place("router", place), None) for place in names}
        return {place: router for place, router in routers.items() if isinstance(router, Router)}

    def route(self, rule, rule_features=None, scores: Callable[[], Any] | None = None, place: str = ""):
        """Ask the router for p [P, M, T]. Without a members axis p and all arguments are [B, N, ...].

        Args:
            rule: one-hot, [P, R, T]; int [B, N] without a members axis.
            rule_features: the model's features of the rule, [P, F, T]; the rule itself by default.
            scores: returns the modules' scores of themselves, [P, M, T]; called if the router needs it.
            place: the name of the routed layer.
        """
        return self.route_with_scores(rule, rule_features, scores, place)[0]

    def route_with_scores(
        self, rule, rule_features=None, scores: Callable[[], Any] | None = None, place: str = ""
    ):
        """Return p, as `route` does, and the scores, which are None if the router does not need them."""
        router = self.routers[place]
        own = scores() if scores is not None and router.needs_scores else None
        if self.has_members_axis:
            return router.route(rule, rule if rule_features is None else rule_features, own), own
        rows = ops.convert_to_tensor(self._place(place).rows(self.num_rules))
        one_hot = by_module(ops.one_hot(ops.take(rows, rule), router.num_rules, dtype=router.dtype))
        features, priced = (None if x is None else by_module(x) for x in (rule_features, own))
        p = router.route(one_hot, one_hot if features is None else features, priced)
        return by_example(p, rule.shape[1]), own

    def visible(self, rule):
        """Return the one-hot rule as the network receives it: zeros if the task hides the rule from it."""
        return ops.zeros_like(rule) if option_of(self.population.task, "hidden") else rule

    @property
    def num_modules(self) -> int:
        """The number of modules M in the first routed layer; 1 without a router."""
        return next((router.num_modules for router in self.routers.values()), 1)

    def priced(self, place: str, scores: Mapping[str, Any]) -> list[Any]:
        """Return the scores, in a list, if the router penalises them."""
        if not self.routers[place].penalises_scores:
            return []
        if scores.get(place) is None:
            raise ValueError(
                f"{type(self).__name__}.forward returns (outputs, p), but variant={self.variant!r} has a "
                "penalty on scores. Return (outputs, p, scores), with p and scores from "
                "self.route_with_scores(...)."
            )
        return [scores[place]]


def check_on_tokens(router: Router, name: str) -> None:
    """Try the router of a variant on a few tokens of every member.

    Shapes cannot show these faults. Raise `ValueError` if p is not a distribution over modules, or if it
    depends on other members. It may depend on other tokens of the batch only if the router says `sees_batch`.
    """
    what, random = f"The router {name!r} ({type(router).__name__})", np.random.default_rng(0)
    first, other = (_drawn(router, random) for _ in range(2))
    p = _route(router, first)
    sums = p.sum(axis=1)
    if not (p.min() >= -TOLERANCE and np.abs(sums - 1).max() <= TOLERANCE):  # false for NaN, too
        raise ValueError(
            f"{what} returns p [P, M, T] between {p.min():.4g} and {p.max():.4g}, whose sums over its "
            f"{router.num_modules} modules lie between {sums.min():.4g} and {sums.max():.4g}; expected "
            "values of at least 0 that sum to 1. Apply a softmax over axis 1, or divide by the sum."
        )
    same = np.zeros([router.num_members, 1, TOKENS], bool)
    same[0] = True
    if _changes(router, p, first, other, same):
        raise ValueError(
            f"{what} mixes members: p of one member changes with the input of another. Axis 0 of p [P, M, "
            "T] counts members, which must not influence each other. Reduce over axis 1."
        )
    same[:] = np.arange(TOKENS) == TOKENS // 2
    if not router.sees_batch and _changes(router, p, first, other, same):
        raise ValueError(
            f"{what} mixes the batch: p of a token changes with the other tokens. Reduce over axis 1 of p "
            "[P, M, T], not 2, or declare sees_batch = True, which recurrent networks do not accept."
        )


def _drawn(router: Router, random: np.random.Generator) -> list[np.ndarray]:
    """Return random rules, their features (which may be the rules themselves), and scores, [P, ..., T]."""
    rules, shape = router.num_rules, (router.num_members, TOKENS)
    rule = np.eye(rules)[random.integers(rules, size=shape)].transpose(0, 2, 1)
    features, scores = (
        random.normal(size=(shape[0], n, TOKENS)) for n in (router.rule_width, router.num_modules)
    )
    return [rule, rule if router.rule_width == rules else features, scores]


def _route(router: Router, values: list[np.ndarray], drawn_for: list[np.ndarray] | None = None) -> np.ndarray:
    """Return p. Noise is keyed by the rules in `drawn_for`, so that it does not mix examples."""
    rule, features, scores = (ops.convert_to_tensor(value, router.variable_dtype) for value in values)
    extra = router.extra_of(rule if drawn_for is None else ops.convert_to_tensor(drawn_for[0], rule.dtype))
    p = router.route_given(rule, features, scores if router.needs_scores else None, extra)
    return np.asarray(ops.convert_to_numpy(ops.cast(p, "float32")))


def _changes(
    router: Router, p: np.ndarray, first: list[np.ndarray], other: list[np.ndarray], same: np.ndarray
) -> bool:
    """Return whether p changes for the tokens that stay the `same` [P, 1, T] while all others change."""
    changed = _route(router, [np.where(same, a, b) for a, b in zip(first, other, strict=True)], first)
    return bool((np.abs(changed - p) * same).max() > TOLERANCE)
