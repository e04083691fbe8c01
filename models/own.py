"""Users' models, registered by name: a function from (task, width, seed) to a `keras.Model`.

Importing this module does not import Keras.
"""

import contextlib
import inspect
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from modtf.base.plugins import line_in
from modtf.base.registry import Registry, check_known_options, options_of_function
from modtf.base.words import one_line
from modtf.models.initial import blank_examples, reproducible
from modtf.models.routers import ROUTERS
from modtf.tasks.cell import Cell
from modtf.tasks.task import Task, science_hash

if TYPE_CHECKING:
    import keras

ARGUMENTS = ("task", "width", "seed")  # before the options


def check_model(name: str, function: Any) -> None:
    """Raise `ValueError` if `function` does not take (task, width, seed), or is named like a router."""
    if name in ROUTERS:
        raise ValueError(f"The model {name!r} has the name of a router. Choose another name.")
    try:
        inspect.signature(function).bind_partial(*ARGUMENTS)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The model {name!r} must be a function of ({', '.join(ARGUMENTS)}) and options with defaults "
            f"that returns a keras.Model, received {function!r}."
        ) from error


MODELS: Registry[Callable[..., "keras.Model"]] = Registry("model", check=check_model)


def register_model(name: str) -> Callable[[Any], Any]:
    """Register your own model by a name (a decorator): `--model=name`.

    The function is called with the task, the width e of the variants (which it may ignore) and the member's
    seed. It returns a `keras.Model` of that task, from `{"inputs", "rule"}` to `{"target", "activation"}`.
    Further arguments are its options, set by `--set model.NAME=VALUE`. Keras's own initialisers and dropout
    draw different numbers for every task and seed, and the same numbers again for the same pair.

    Raises:
        ValueError: if the name is taken, or the function takes other arguments.

    Example:
        >>> @modtf.register_model("my_model")  # doctest: +SKIP
        ... def my_model(task, width, seed, experts=4):
        ...     return MixtureOfExperts(task.num_rules, experts, width)
    """
    return MODELS.register(name)


def options_of_model(name: str) -> dict[str, Any]:
    """Return the options of a registered model, with their defaults."""
    return options_of_function(MODELS[name], len(ARGUMENTS))


def check_cell_of_model(cell: Cell) -> None:
    """Raise `ValueError` if a registered model does not know the options of its cell."""
    name = cell.runs
    check_known_options(f"the model {name!r}", cell.model, options_of_model(name))
    check_known_options(f"the model {name!r}, which has no router", cell.router, {})
    if cell.architecture is not None:
        raise ValueError(f"architecture={cell.architecture!r}: {name!r} is a whole model. Leave it out.")


def make_model(name: str, task: Task, width: int, seed: int, options: Mapping[str, Any]) -> "keras.Model":
    """Make a registered model with all its weights. Raise `ValueError` if its function fails."""
    import keras

    check_known_options(f"the model {name!r}", options, options_of_model(name))
    with explained(name, MODELS[name]), reproducible(task, seed):
        model = MODELS[name](task, width, seed, **options)
        if isinstance(model, keras.Model):
            model(blank_examples(task))  # a first call creates all weights
    if not isinstance(model, keras.Model):
        raise ValueError(
            f"The function of the model {name!r} returned {type(model).__name__}; expected a keras.Model."
        )
    if not model.trainable_variables:
        raise ValueError(f"The model {name!r} has no weights that can be trained.")
    return model


@contextlib.contextmanager
def explained(name: str, made_by: Any) -> Iterator[None]:
    """Report in one line where a user's model failed, in the file of its function or class. Errors about
    files, such as a full disk, are passed on unchanged."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        text = re.sub(r"\x1b\[\d*m|Exception encountered when calling [^\n]*|\n+Arguments received.*", "",
                      str(error), flags=re.DOTALL)  # fmt: skip
        place = line_in(error, inspect.getsourcefile(inspect.unwrap(made_by)) or "")
        what = f"{type(error).__name__}: {one_line(text)}"
        raise ValueError(f"The model {name!r} failed{place}: {what}") from error


def hash_of_config(model: "keras.Model") -> str:
    """Return a hash of the `get_config()` of a model and of its layers, equal for two builds of one model."""
    return science_hash([_config_of(part) for part in (model, *model.layers)], 8)


def _config_of(part: Any) -> Any:
    """Return the config of a model or layer without names; None if it cannot be written."""
    import keras

    try:
        with warnings.catch_warnings(action="ignore"):  # about lambdas
            config = _without_names(keras.saving.serialize_keras_object(part.get_config()))
        json.dumps(config)
    except Exception:  # a user's `get_config` may raise anything
        return None
    return config


def _without_names(config: Any) -> Any:
    """Return a config without what differs between two builds or two versions of Keras.

    Keras numbers layers by process. The bytes of a lambda change with the lines above it.
    """
    if isinstance(config, Mapping):
        if config.get("class_name") in ("__lambda__", "SeedGenerator"):
            return config["class_name"]
        left_out = ("module", "registered_name", "build_config", "compile_config")
        known = {name: value for name, value in config.items() if name not in left_out and value is not None}
        return {name: _without_names(value) for name, value in known.items()}
    if isinstance(config, list | tuple):
        return [_without_names(value) for value in config]
    return re.sub(r"_\d+$", "", config) if isinstance(config, str) else config
