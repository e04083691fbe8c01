"""Ends a process in order when the system asks it to: SIGTERM, from a scheduler, a container or `kill`."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

TERMINATED = 128 + signal.SIGTERM  # exit status
GRACE = 10.0  # seconds that a call outside Python, such as compiling, may still take
SAVING = 120.0  # seconds for all that comes after it: a large checkpoint takes long to write


class Terminated(SystemExit):
    """The process was sent SIGTERM; what it works on is saved on the way out."""

    def __init__(self) -> None:
        super().__init__(TERMINATED)


@contextmanager
def exit_on_sigterm(grace: float = GRACE, saving: float = SAVING) -> Iterator[None]:
    """Within, the first SIGTERM raises `Terminated` in the main thread, and later ones are ignored.

    Python can raise nothing before a call outside of it returns. If that takes more than `grace` seconds,
    or what follows more than `saving`, the process ends at once, with the same exit status.

    Only the main thread can do this; elsewhere nothing is changed.

    Example:
        >>> with exit_on_sigterm():
        ...     pass
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    raised = threading.Event()

    def raise_once(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raised.set()
        raise Terminated

    def watch() -> None:
        while (sent := os.read(reader, 64)) and signal.SIGTERM not in sent:
            pass  # other signals are none of ours
        if not sent:
            return
        if raised.wait(grace) and done.wait(saving):
            return
        os._exit(TERMINATED)

    done = threading.Event()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.signal(signal.SIGTERM, raise_once)
    woken = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)  # is written to even outside Python
    thread = threading.Thread(target=watch, name="watch for SIGTERM", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        signal.set_wakeup_fd(woken)
        if not raised.is_set():  # else the process ends, and shall not be disturbed
            signal.signal(signal.SIGTERM, before)
        os.close(writer)
        thread.join()
        os.close(reader)
