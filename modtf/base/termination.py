"""The orderly end of a process on SIGTERM, from a scheduler, a container or `kill`."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
