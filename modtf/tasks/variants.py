"""Variants, which a family compares. It needs no TensorFlow: a trainer is a lazy reference."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modtf.base.checks import check_attributes, check_name, check_options

TRAINER = "modtf.training.plain:plain"  # the default trainer
ROUTER = "router."  # prefix of a router's options among a model's
RANDOM = "random"  # the row of random routing in tables and figures, which no variant may have


@dataclass(frozen=True)
class Variant:
    """The definition of a variant: the model and trainer of a name.

    Args:
        name: in flags, cells and results.
        title: the name for readers; by default `name`.
        router: the registered router, or registered model, to use; by default the one of the same name.
        model: fixed options, the architecture's by their names and the router's as "router.NAME". Callers
            cannot change them.
        trainer: a function of a context, see `modtf.training.trainer`, or a lazy reference
            "package.module:function" to one. The default trains on the "train" stream of the task, from start
            to end, after a warm start of the router if requested.
        by_default: whether commands and studies run it by default.
        architecture: the name of its network; by default the family's.

    Example:
        >>> Variant("two_of_all", "2 of all", router="top_k", model={"router.k": 2}).router
        'top_k'
    """

    name: str
    title: str = ""
    router: str = ""
    model: Mapping[str, Any] | None = None
    trainer: Any = TRAINER
    by_default: bool = True
    architecture: str = ""

    def __post_init__(self) -> None:
        check_name("a variant", self.name)
        if self.name == RANDOM:
            raise ValueError(
                f"A variant, router or model cannot have the name {RANDOM!r}, which tables and figures give "
                "to random routing. Choose another name."
            )
        object.__setattr__(self, "title", self.title or self.name)
        object.__setattr__(self, "router", self.router or self.name)
        what = f"The variant {self.name!r}"
        check_attributes(what, self, title=str, router=str, architecture=str)
        object.__setattr__(self, "model", check_options(f"{what}: model", self.model or {}))
        if not (isinstance(self.trainer, str) or callable(self.trainer)):
            raise ValueError(
                f'{what} has trainer={self.trainer!r}; expected a function or "module:function".'
            )

    def options(self, router: Mapping[str, Any], model: Mapping[str, Any]) -> tuple[dict, dict]:
        """Return the options of router and model, including those that the variant fixes. Raise `ValueError`
        if a fixed option is given."""
        asked = {**{ROUTER + name: value for name, value in router.items()}, **model}
        fixed: Mapping[str, Any] = self.model or {}
        for name in asked:
            if name in fixed:
                raise ValueError(
                    f"{name}={asked[name]!r}: the variant {self.name!r} fixes {name}={fixed[name]!r}. Leave "
                    "it out."
                )
        of_router = {n.removeprefix(ROUTER): v for n, v in fixed.items() if n.startswith(ROUTER)}
        of_model = {n: v for n, v in fixed.items() if not n.startswith(ROUTER)}
        return {**of_router, **router}, {**of_model, **model}


#: from least to most informed: the default of commands and studies
PUBLISHED = tuple(map(Variant, ("monolithic", "modular", "modular_op", "gt_modular")))
