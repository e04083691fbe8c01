"""Silence for TensorFlow's first import, unless it fails; `import modtf` sets it up."""

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def quiet_tensorflow() -> None:
    """Make the first import of TensorFlow, from any module, print nothing unless it fails.

    Environment variables are not enough: TensorFlow 2.21 writes three lines (absl, oneDNN, CUDA) before it
    reads them.

    Convolutions use oneDNN on every processor. By default only some do, and TensorFlow's own convolutions
    take 1.5 to 3.5 times as long on the others. Programs that XLA compiles stay the same.
    """
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # for later messages
    if "tensorflow" not in sys.modules:
        sys.meta_path.insert(0, _QuietTensorFlow())


class _QuietTensorFlow(MetaPathFinder):
    """A finder that finds TensorFlow once, where the others do, and loads it in silence."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = partial(_silently, spec.loader.exec_module)
            spec.loader.exec_module = load  # type: ignore[method-assign]
        return spec


def _silently(load: Callable[[ModuleType], None], module: ModuleType) -> None:
    """Load a module. Its output that bypasses Python is shown only if the import fails."""
    with tempfile.TemporaryFile() as output:
        terminal = os.dup(2)
        os.dup2(output.fileno(), 2)
        try:
            load(module)
        except KeyboardInterrupt:
            raise
        except BaseException:
            output.seek(0)
            os.write(terminal, output.read())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
