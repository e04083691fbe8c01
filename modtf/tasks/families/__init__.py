"""Families of tasks. One file, and one line here, add one. `modtf.register_family` adds one from outside."""

from collections.abc import Callable, Sequence
from typing import Any

from modtf.base.registry import Registry, origin
from modtf.tasks.condition import IID as IID
from modtf.tasks.condition import Condition as Condition
from modtf.tasks.condition import published_conditions as published_conditions
from modtf.tasks.families.checks import check_family
from modtf.tasks.family import Family as Family
from modtf.tasks.family import Option as Option

FAMILIES: Registry[Family] = Registry(
    "family", {name: f"modtf.tasks.families.{name}" for name in ("mlp", "mha", "rnn")}, check_family
)


def is_one_of(name: str, families: Sequence[str]) -> bool:
    """Return whether a family is one of the named ones, or a subclass made from one."""
    if name in families or name not in FAMILIES:
        return name in families
    return any(isinstance(FAMILIES[name], type(FAMILIES[other])) for other in families if other in FAMILIES)


def with_free_rules() -> dict[str, Family]:
    """Return the registered families whose tasks choose their number of rules; grids over R use them."""

    def fixed(family: Family) -> int | None:
        return family.fixed_rules({option.name: option.default for option in family.options})

    return {name: family for name, family in FAMILIES.items() if fixed(family) is None}


def register_family(name: str) -> Callable[[type[Family]], type[Family]]:
    """Register a `Family` by a name (a class decorator): `Task(arch=name)`, `--arch=name`.

    Raises:
        ValueError: if the name is taken, or the family lacks an attribute that other parts read.
    """

    def add(family: Any) -> Any:
        if not (isinstance(family, type) and issubclass(family, Family)):
            check_family(name, family)
        made = family()
        made.name = name
        FAMILIES.add(name, made, origin(family))
        return family

    FAMILIES.check_name(name)
    return add
