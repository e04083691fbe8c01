"""How tokens are made and labelled: one class of `RuleData` per family.

Importing this package imports no TensorFlow; `data_class` does.
"""

from typing import TYPE_CHECKING

from modtf.families import Family
from modtf.registry import resolve

if TYPE_CHECKING:
    from modtf.datasets.families.base import RuleData


def data_class(family: Family) -> "type[RuleData]":
    """The class of a family's data, which is imported now.

    Raises:
        ValueError: where `Family.data` is no `RuleData`, or lacks a method.
    """
    from modtf.datasets.families.base import RuleData

    whose = f"The data of the family {family.name!r}"
    try:
        found = resolve(family.data)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{whose}, {family.data!r}, cannot be imported: {error}. "
            "Expected a subclass of modtf.datasets.families.base.RuleData, or 'package.module:Class'."
        ) from error
    if not (isinstance(found, type) and issubclass(found, RuleData)):
        raise ValueError(
            f"{whose} must be a subclass of modtf.datasets.families.base.RuleData, received {found!r}."
        )
    if lacking := sorted(found.__abstractmethods__):
        raise ValueError(f"{whose}, {found.__name__}, lack {', '.join(lacking)}; see RuleData.")
    return found
