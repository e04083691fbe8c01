"""Libraries that not everybody has: the error names the extra that brings one."""

from importlib import import_module
from typing import Any


class MissingExtraError(ImportError, ValueError):
    """A library that belongs to an extra of modtf and cannot be imported."""


def need(module: str, extra: str, what: str) -> Any:
    """Return a module of an optional library, imported now.

    Args:
        module: its name, "mlxtend.data".
        extra: which of modtf's extras brings it, "images".
        what: what needs it, for the error.

    Raises:
        MissingExtraError: in one line, where it cannot be imported; an `ImportError` and a `ValueError`.
    """
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise MissingExtraError(
            f"{what} needs {library}, which cannot be imported ({error}). "
            f"Install it: pip install 'modtf[{extra}]'."
        ) from error
