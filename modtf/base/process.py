"""The process: silence for TensorFlow's first import, and an orderly end on SIGTERM."""

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


TERMINATED = 128 + signal.SIGTERM  # exit status


class Terminated(SystemExit):
    """An exception for a process that received SIGTERM. Its work is saved on the way out."""

    def __init__(self) -> None:
        super().__init__(TERMINATED)


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Raise `Terminated` in the main thread at the first SIGTERM in the context, and ignore later ones.

    As with Ctrl-C, it waits for the end of a call outside Python, such as compiling. Only the main thread can
    do this; in other threads nothing changes. Python drops exceptions raised in a destructor, which
    TensorFlow's functions have. The signal, or Ctrl-C, is then sent again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def raise_once(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    def come_again(dropped: Any) -> None:
        number = {KeyboardInterrupt: signal.SIGINT, Terminated: signal.SIGTERM}.get(dropped.exc_type)
        if number == signal.SIGTERM:
            signal.signal(number, raise_once)
        if number is None:
            hook(dropped)
        else:
            threading.Timer(0.1, os.kill, (os.getpid(), number)).start()  # after the destructor

    before, hook = signal.signal(signal.SIGTERM, raise_once), sys.unraisablehook
    sys.unraisablehook = come_again
    try:
        yield
    finally:
        sys.unraisablehook = hook
        if signal.getsignal(signal.SIGTERM) is raise_once:  # otherwise the process ends
            signal.signal(signal.SIGTERM, before)
