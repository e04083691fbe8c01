"""Ends a process in order when the system asks it to: SIGTERM, from a scheduler, a container or `kill`."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TERMINATED = 128 + signal.SIGTERM  # exit status


class Terminated(SystemExit):
    """The process was sent SIGTERM; what it works on is saved on the way out."""

    def __init__(self) -> None:
        super().__init__(TERMINATED)


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Within, the first SIGTERM raises `Terminated` in the main thread, and later ones are ignored.

    As Ctrl-C does, it waits for the end of a call outside Python, such as compiling. Only the main thread can
    do this; elsewhere nothing is changed. Python drops what is raised in a destructor, as TensorFlow's
    functions have: there the signal, or Ctrl-C, comes again.
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
        if signal.getsignal(signal.SIGTERM) is raise_once:  # else the process ends
            signal.signal(signal.SIGTERM, before)
