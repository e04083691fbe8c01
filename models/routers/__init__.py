"""Routers, which compute the activation probabilities. One file and one line here add a variant;
`modtf.register_router` adds one from outside. Importing this module does not import Keras."""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any

from modtf.base.registry import Registry, check_known_options, options_of
from modtf.base.space import parse_named
from modtf.metrics.registry import MEASURES, check_row
from modtf.tasks.family import PUBLISHED, Family

if TYPE_CHECKING:
    from modtf.models.routers.base import Router, RouterSetup


def check_router(name: str, router: Any) -> None:
    """Raise `ValueError` if a router lacks something that a model requires."""
    from modtf.models.routers.base import Router

    if not (isinstance(router, type) and issubclass(router, Router)):
        raise ValueError(
            f"The router {name!r} must be a subclass of modtf.models.Router, received {router!r}."
        )
    own_penalty, named = router.penalty is not Router.penalty, router.penalty_name
    takes_extra = router.extra_input is Router.extra_input or "extra" in signature(router.call).parameters
    for wrong, what in (
        (router.call is Router.call, "does not define call(rule, rule_features, scores), which "
         "modtf.models.Router documents."),
        (own_penalty == (named is None), f"has penalty_name={named!r} and {'a' if own_penalty else 'no'} "
         "method penalty(activation); give both or neither."),
        (router.penalises_scores and not (router.needs_scores and named), "has penalises_scores = True. Then "
         "it also needs needs_scores = True, a penalty(activation, scores) and a penalty_name."),
        (not takes_extra, "has extra_input(rule, training), but its call has no argument extra. Write "
         "call(self, rule=None, rule_features=None, scores=None, extra=None)."),
    ):  # fmt: skip
        if wrong:
            raise ValueError(f"The router {name!r} {what}")
    if named is not None:
        check_row(f"the penalty of the router {name!r}", named, MEASURES)
    options = options_of(router, "__init__", skip=2)
    try:
        tunable = [parse_named(text)[0] for text in router.tunable]
    except ValueError as error:
        raise ValueError(f"The router {name!r} has tunable={router.tunable!r}: {error}") from error
    for option in tunable:
        if option not in options:
            raise ValueError(
                f"The router {name!r} has tunable={router.tunable!r}, but {option!r} is not an option of "
                f"it; its options: {', '.join(options) or 'none'}."
            )


ROUTERS: Registry[type["Router"]] = Registry(
    "variant",
    {
        "monolithic": "modtf.models.routers.published",
        "modular": "modtf.models.routers.published",
        "modular_op": "modtf.models.routers.published",
        "gt_modular": "modtf.models.routers.published",
        "temperature": "modtf.models.routers.temperature",
        "top_k": "modtf.models.routers.top_k",
        "switch": "modtf.models.routers.balanced",
        "cosine": "modtf.models.routers.cosine",
        "z_loss": "modtf.models.routers.balanced",
        "bias_balanced": "modtf.models.routers.balanced",
        "annealed": "modtf.models.routers.temperature",
        "gumbel": "modtf.models.routers.temperature",
        "expert_choice": "modtf.models.routers.top_k",
        "balanced": "modtf.models.routers.balanced",
        "hash": "modtf.models.routers.hash",
        "uniform": "modtf.models.routers.published",
        "clamped": "modtf.models.routers.clamped",
    },
    check_router,
)


def default_variants(family: Family | None = None) -> list[str]:
    """Return the variants that run by default. These are a family's own. The published four, which belong to
    no family, are joined by the routers of plug-ins."""
    variants = PUBLISHED if family is None else family.variants
    names = [variant.name for variant in variants if variant.by_default]
    return [*names, *(ROUTERS.outside if variants is PUBLISHED else [])]


def make_router(variant: str, setup: "RouterSetup", options: Mapping[str, Any]) -> "Router":
    """Make the router of a name with these options. Raise `ValueError` for unknown or invalid options."""
    router = ROUTERS[variant]
    what, known = f"the router variant={variant!r}", options_of(router, "__init__", skip=2)
    check_known_options(what, options, known)
    try:
        return router(setup, **options)
    except (TypeError, ValueError) as error:
        if not options:
            raise
        listed = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise ValueError(
            f"{what} cannot be built with {listed}: {error} Its options: {', '.join(known)}."
        ) from error


def register_router(name: str) -> Callable[[type["Router"]], type["Router"]]:
    """Register a `modtf.models.Router` by a name (a class decorator): `modtf.build(task, name)`,
    `--variant=name`.

    Raises:
        ValueError: if the name is taken, or the class is not a complete router.
    """
    return ROUTERS.register(name)
