"""A variant and its options become a router."""

from collections.abc import Mapping
from typing import Any

from modtf.models.options import check_options, options_of
from modtf.models.routers import ROUTERS
from modtf.models.routers.base import Router, RouterSetup


def make_router(variant: str, setup: RouterSetup, options: Mapping[str, Any]) -> Router:
    """The router of a variant.

    Args:
        variant: a name of `ROUTERS`.
        setup: what the model offers it.
        options: its own, by name.

    Raises:
        ValueError: on an option that it does not have, lacks, or refuses.
    """
    router = ROUTERS[variant]
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
