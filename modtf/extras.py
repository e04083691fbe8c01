"""Libraries that not everybody has: the error names the extra that brings one."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

#: what the extra `tf` brings and much of modtf imports
TENSORFLOW = (
    "tensorflow",
    "keras",
    "keras_tuner",
    "tensorflow_datasets",
    "tensorboard",
    "importlib_resources",
)


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


@contextmanager
def tensorflow_named(what: str) -> Iterator[None]:
    """Name the extra `tf` where TensorFlow, Keras or their like are not installed.

    Args:
        what: what needs them, for the error.

    Raises:
        MissingExtraError: in one line, where the block imports one of them in vain.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in TENSORFLOW:
            raise
        raise MissingExtraError(
            f"{what} needs {library}, which is not installed. Install it: pip install 'modtf[tf]'."
        ) from error
