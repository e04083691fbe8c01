"""What every router provides."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import keras

from modtf.checks import check_integer
from modtf.models.initial import InitialWeights
from modtf.models.options import check_options, options_of


@dataclass(frozen=True)
class RouterSetup:
    """What a model offers its router.

    `Dense` and `TwoLayer` of `modtf.models` take `initial` and `dtype`.
    """

    initial: InitialWeights  # draws initial weights
    num_rules: int  # R
    width: int  # of `rule_features`
    #: hidden units that the architecture gives a network on `rule_features`, by number of modules; None
    #: where one dense layer is enough, because the features are learned already
    hidden: Callable[[int], int] | None = None
    use_bias: bool = True
    dtype: Any = None


class Router(keras.layers.Layer):
    """Gives the activation probabilities p [P, M, T], which sum to 1 over the M modules.

    A subclass writes `call`, and a constructor for options of its own: they are keyword arguments with
    defaults, passed by `modtf.build(..., router={"temperature": 2.0})`. It passes `modules` on if the number
    of modules is free. P counts the members, T the tokens; members never see each other.

    Args:
        setup: what the model offers.
        modules: M; R by default.

    Raises:
        ValueError: if `modules` is no integer of at least 1.

    Example: modules score themselves, and are used evenly at a price.

        @modtf.register_router("even")
        class Even(modtf.models.Router):
            needs_scores = True
            penalty_name = "unevenness"

            def __init__(self, setup, *, modules=None, strength=0.1):
                super().__init__(setup, modules=modules)
                self.strength = strength

            def call(self, rule=None, rule_features=None, scores=None):
                return ops.softmax(scores, axis=1)

            def route(self, rule, rule_features, scores=None):
        """`call`, for the models: what a router gives must have the shape it promises."""
        p = self(rule=rule, rule_features=rule_features, scores=scores)
        if len(p.shape) != 3 or p.shape[1] not in (None, self.num_modules):
            raise ValueError(
                f"{type(self).__name__}.call gave p of shape {tuple(p.shape)}; expected [P, M, T] with "
                f"M = {self.num_modules} modules."
            )
        return p

    def penalty(self, activation):
                usage = ops.mean(activation, axis=2)
                return self.strength * ops.sum((usage - 1 / self.num_modules) ** 2, axis=1)
    """

    needs_scores: ClassVar[bool] = False  # whether modules must score themselves
    #: a promise that p is a function of the rule alone: how modules are used under another distribution of
    #: the rules then follows, and is not sampled
    depends_only_on_rule: ClassVar[bool] = False
    penalty_name: ClassVar[str | None] = None  # under which `penalty` is reported, if there is one

    def __init__(self, setup: RouterSetup, *, modules: int | None = None):
        super().__init__(name="router", dtype=setup.dtype)
        self.num_rules = setup.num_rules
        self.num_modules = setup.num_rules if modules is None else check_integer("modules", modules, 1)
        self.built = True

    def call(self, rule=None, rule_features=None, scores=None):
        """p of all tokens, or in a recurrence of one step's.

        Args:
            rule: one-hot rules [P, R, T].
            rule_features: what the architecture makes of them, [P, setup.width, T]; the rules themselves
                where it makes nothing.
            scores: what every module scores itself with, [P, M, T]; None unless `needs_scores`.

        Returns:
            p [P, M, T], at least 0 and with sum 1 over M.
        """
        raise NotImplementedError

    def route(self, rule, rule_features, scores=None):
        """`call`, for the models: what a router gives must have the shape it promises."""
        p = self(rule=rule, rule_features=rule_features, scores=scores)
        if len(p.shape) != 3 or p.shape[1] not in (None, self.num_modules):
            raise ValueError(
                f"{type(self).__name__}.call gave p of shape {tuple(p.shape)}; expected [P, M, T] with "
                f"M = {self.num_modules} modules."
            )
        return p

    def penalty(self, activation):
        """What is added to each member's loss: from p of a batch, [P, M, T], to [P].

        Only p reaches it, and in a recurrence it is that of all steps.
        """
        raise NotImplementedError


def make_router(variant: str, router: type[Router], setup: RouterSetup, options: Mapping[str, Any]) -> Router:
    """A router with its options.

    Raises:
        ValueError: on an option that it does not have, lacks, or refuses.
    """
    what, known = f"the router variant={variant!r}", options_of(router, "__init__", skip=2)
    check_options(what, options, known)
    try:
        return router(setup, **options)
    except (TypeError, ValueError) as error:
        if not options:
            raise
        given = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise ValueError(
            f"{what} cannot be built with {given}: {error} Its options: {', '.join(known)}."
        ) from error
