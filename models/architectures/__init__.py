"""Architectures. One file and its name here add one, and every router works with it. `register_architecture`
adds one from outside. Importing this module does not import Keras."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from modtf.base.registry import Registry

if TYPE_CHECKING:
    from modtf.models.base import ModularModel


def check_architecture(name: str, architecture: Any) -> None:
    """Raise `ValueError` if an architecture lacks something that `ModularModel` requires."""
    from modtf.models.base import ModularModel

    if not (isinstance(architecture, type) and issubclass(architecture, ModularModel)):
        raise ValueError(
            f"The architecture {name!r} must be a subclass of modtf.models.ModularModel, received "
            f"{architecture!r}."
        )
    methods = ("make_layers", "forward")
    lacking = [each for each in methods if getattr(architecture, each) is getattr(ModularModel, each)]
    if lacking:
        raise ValueError(
            f"The architecture {name!r} does not define {', '.join(lacking)}. Define what "
            "modtf.models.ModularModel documents."
        )


NAMES = ("mlp", "mha", "rnn")
ARCHITECTURES: Registry[type["ModularModel"]] = Registry(
    "architecture", {name: f"modtf.models.architectures.{name}" for name in NAMES}, check_architecture
)


def register_architecture(name: str) -> Callable[[type["ModularModel"]], type["ModularModel"]]:
    """Register a `modtf.models.ModularModel` by a name (a class decorator).

    The name is valid as a family's `architecture`, in `modtf.build(..., architecture=name)` and in
    `--architecture=name`. Saved models are loaded by that name, too.

    Raises:
        ValueError: if the name is taken, or the class lacks a method.
    """
    register = ARCHITECTURES.register(name)

    def add(architecture: type["ModularModel"]) -> type["ModularModel"]:
        import keras

        register(architecture)
        return keras.saving.register_keras_serializable("modtf", name)(architecture)

    return add
