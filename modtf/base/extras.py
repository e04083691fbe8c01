"""Optional libraries. An error names the extra that installs the missing one."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

#: the libraries of the extra `tf`, which much of modtf imports
TENSORFLOW = (
    "tensorflow",
    "keras",
    "keras_tuner",
    "tensorflow_datasets",
    "tensorboard",
    "importlib_resources",
)


def keras_backend() -> str:
    """Return the backend that Keras will use, without importing Keras."""
    folder = Path(os.environ.get("KERAS_HOME", Path.home() / ".keras"))
    if not (name := os.environ.get("KERAS_BACKEND")):
        with suppress(OSError, ValueError, AttributeError):
            name = json.loads((folder / "keras.json").read_text(encoding="utf-8")).get("backend")
    return name or "tensorflow"


class MissingExtraError(ImportError, ValueError):
    """A library that belongs to an extra of modtf and cannot be imported."""


def install(extra: str) -> str:
    """Return the command that installs an extra, for errors."""
    return f"pip install '.[{extra}]' in a checkout of modtf"


def need(module: str, extra: str, what: str) -> Any:
    """Return a module of an optional library, imported now.

    Args:
        module: its name, "mlxtend.data".
        extra: the extra of modtf that installs it, "images".
        what: the feature that needs it, for the error.

    Raises:
        MissingExtraError: if it cannot be imported. The error has one line and is an `ImportError` and a
            `ValueError`.
    """
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise MissingExtraError(
            f"{what} needs {library}, which cannot be imported ({error}). Install it: {install(extra)}."
        ) from error


@contextmanager
def tensorflow_named(what: str) -> Iterator[None]:
    """Name the extra if TensorFlow, Keras, JAX or a related library is not installed.

    Args:
        what: the feature that needs them, for the error.

    Raises:
        MissingExtraError: in one line, if the block fails to import one of them.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in (*TENSORFLOW, "jax"):
            raise
        raise MissingExtraError(
            f"{what} needs {library}, which is not installed. Install it: "
            f"{install('jax' if library == 'jax' else 'tf')}."
        ) from error
