"""Old import names that still work, with a deprecation warning."""

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def moved_names(old: str, new: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module whose names have moved.

    Args:
        old: the module's own name.
        new: name -> "package.module:name", the new location; imported on first use.

    Example:
        >>> __getattr__ = moved_names(__name__, {"write_atlas": "modtf.routing:write_routing_report"})
    """

    def get(name: str) -> Any:
        if name not in new:
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        module, _, attribute = new[name].partition(":")
        warnings.warn(f"{old}.{name} is now {module}.{attribute}.", DeprecationWarning, stacklevel=2)
        return getattr(import_module(module), attribute)

    return get
