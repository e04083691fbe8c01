"""The process: oneDNN's switch, and SIGTERM as an exception in the main thread."""

import os
import signal
import threading
import time

import pytest
import tensorflow as tf

from modtf.base.process import TERMINATED, Terminated, exit_on_sigterm, quiet_tensorflow


@pytest.mark.parametrize(("given", "left"), [(None, "1"), ("0", "0")])
def test_convolutions_are_those_of_onednn_unless_a_user_says_otherwise(given, left, monkeypatch):
    assert tf  # already imported: nothing else is done
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    if given:
        monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", given)
    quiet_tensorflow()
    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == left


@pytest.fixture
def handler():
    before = signal.getsignal(signal.SIGTERM)
    ctrl_c = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    yield before
    signal.signal(signal.SIGTERM, before)
    signal.signal(signal.SIGINT, ctrl_c)


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


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)]
)
def test_one_that_falls_into_a_destructor_comes_again(handler, number, raised):
    class Dropped:
        def __del__(self):
            signal.raise_signal(number)

    def work():
        Dropped()
        time.sleep(60)

    with pytest.raises(raised), exit_on_sigterm():
        work()


def test_it_leaves_nothing_behind_and_other_threads_change_nothing(handler):
    with exit_on_sigterm():
        assert signal.getsignal(signal.SIGTERM) != handler
    assert signal.getsignal(signal.SIGTERM) == handler
    seen = []

    def work():
        with exit_on_sigterm():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [handler]
