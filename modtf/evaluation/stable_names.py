"""Names of traced functions that another process would give, too."""

import contextlib
import inspect
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import keras

from modtf import persistent_cache

_EAGER, _OPS = "tensorflow.python.eager.polymorphic_function.", "tensorflow.python.ops."
#: (module, function) that name a traced function: "its_name_" and how many were traced so far
NAMING = (
    *((f"{_EAGER}concrete_function", f"_{kind}_name") for kind in ("forward", "backward", "inference")),
    *((f"{_OPS}control_flow_util_v2", f"unique_{kind}_name") for kind in ("fn", "grad_fn")),
)


class _Names:
    """Of the functions of one model: numbered by how often the model has had one of that name."""

    #: models of this process that look the same; their programs may still differ
    _alike: ClassVar[Counter[int]] = Counter()

    def __init__(self, model: keras.Model):
        looks = [type(model).__name__, getattr(model, "output_name", "")]
        looks += [str(tuple(variable.shape)) for variable in model.variables]
        seed = zlib.crc32(repr(looks).encode())
        self._alike[seed] += 1
        self.prefix = f"{seed:08x}_{self._alike[seed]}"
        self.count = Counter[str]()

    def like(self, naming: Callable[..., str]) -> Callable[..., str]:
        """Names as `naming` does, but for the number; also within the `stable_names` of another model."""
        plainly = inspect.unwrap(naming)

        @wraps(plainly)
        def name(*words: Any) -> str:
            stem = plainly(*words).rpartition("_")[0]
            self.count[stem] += 1
            return f"{stem}_{self.prefix}_{self.count[stem]}"

        return name


_names_of: WeakKeyDictionary[keras.Model, _Names] = WeakKeyDictionary()


@contextlib.contextmanager
def stable_names(model: keras.Model) -> Iterator[None]:
    """While it lasts, traced functions are named after the model, not after what the process did before.

    TensorFlow numbers functions by how many were traced so far, and a function's name is in the key under
    which XLA's persistent cache finds its program: the second cell of a study, or the first of one that is
    continued, would never find what was compiled before. Nothing is done where no such cache is used.
    """
    if not persistent_cache.is_used():
        yield
        return
    if model not in _names_of:
        _names_of[model] = _Names(model)
    with contextlib.ExitStack() as changed:
        # TensorFlow has no public way to name them; another version may name them elsewhere
        for path, function in NAMING:
            module = import_module(path)
            naming = getattr(module, function, None)
            if naming is not None:
                changed.callback(setattr, module, function, naming)
                setattr(module, function, _names_of[model].like(naming))
        yield
