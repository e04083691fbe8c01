"""A worker's way to its chief, which may be killed and started again at any moment."""

import functools
import socket
import time
from collections.abc import Callable
from typing import Any

import grpc
from keras_tuner.src.distribute import oracle_client

AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
ANSWER = 60.0  # seconds within which a chief answers
POLL = 0.5  # seconds between two tries
LONGEST = 3600.0  # seconds that a worker waits for a chief, as KerasTuner's own do


class SearchEndedError(RuntimeError):
    """The search has ended without this worker."""


class PatientOracle:
    """Asks a chief, again where it was killed before it could answer.

    Every question may be asked twice: a chief that goes on knows which trial is whose.

    Args:
        client: KerasTuner's, which gives up when a connection breaks.
        address: of the chief, "IP:PORT".
        is_done: whether the search has ended.
    """

    def __init__(self, client: Any, address: str, is_done: Callable[[], bool]):
        oracle_client.TIMEOUT = ANSWER  # else a question to a chief that has just ended takes an hour
        self._client, self._is_done = client, is_done
        host, _, port = address.rpartition(":")
        self._place = host, int(port)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return functools.partial(self._ask, found) if callable(found) else found

    def _ask(self, question: Callable[..., Any], *args: Any, **options: Any) -> Any:
        while True:
            self._wait()
            try:
                return question(*args, **options)
            except grpc.RpcError as error:
                if error.code() not in AGAIN:
                    raise
            time.sleep(POLL)

    def _wait(self) -> None:
        """Until somebody listens at the chief's address."""
        end = time.monotonic() + LONGEST
        while True:
            if self._is_done():  # who listens there now is the chief of another search
                raise SearchEndedError
            try:
                socket.create_connection(self._place, timeout=POLL).close()
                return
            except OSError as error:
                if time.monotonic() > end:
                    host, port = self._place
                    raise ValueError(f"No chief answers at {host}:{port}: {error}.") from error
            time.sleep(POLL)
