"""SIGTERM: an exception in the main thread, and an end in any case."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from modtf.termination import TERMINATED, Terminated, exit_on_sigterm


@pytest.fixture
def handler():
    before = signal.getsignal(signal.SIGTERM)
    yield before
    signal.signal(signal.SIGTERM, before)


def test_the_first_one_raises_and_later_ones_are_ignored(handler):
    def work():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # while it is saving

    with pytest.raises(Terminated) as caught, exit_on_sigterm():
        work()
    assert caught.value.code == TERMINATED == 143


def test_it_leaves_nothing_behind(handler):
    threads = threading.active_count()
    with exit_on_sigterm():
        assert signal.getsignal(signal.SIGTERM) != handler
    assert signal.getsignal(signal.SIGTERM) == handler
    assert threading.active_count() == threads
    assert signal.set_wakeup_fd(-1) == -1


def test_other_threads_change_nothing(handler):
    seen = []

    def work():
        with exit_on_sigterm():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [handler]


OUTSIDE = """
import ctypes, os, signal, threading
from modtf.termination import exit_on_sigterm

with exit_on_sigterm(grace=0.2):
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # another thread gets it: the call lasts
    ctypes.CDLL(None).poll(None, 0, 30_000)
"""

SWALLOWED = """
import os, signal, time
from modtf.termination import exit_on_sigterm

with exit_on_sigterm(saving=0.2):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)
    except BaseException:
        time.sleep(30)
"""


@pytest.mark.parametrize("code", [OUTSIDE, SWALLOWED])
def test_it_ends_whatever_holds_it(code):
    began = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 143
    assert time.monotonic() - began < 25
