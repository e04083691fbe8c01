"""A chief: hands out trials to the workers that ask for them, until all have ended."""

import functools
import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc
from keras_tuner.src import protos
from keras_tuner.src.distribute.oracle_chief import OracleServicer, exit_chief

from modtf.tuning.oracles import Durable

LOOKS = 1.0  # seconds between looks at whether all have ended, and who is gone
LAST_WORDS = 5.0  # seconds in which answers that are under way arrive


def serve(oracle: Durable, address: str) -> None:
    """Answers workers until every trial has ended, and every worker that is there has been told.

    KerasTuner's own loop looks every twenty seconds, and leaves its server to be taken down later: a second
    search at its address may then lose questions to it.

    Args:
        oracle: of the search.
        address: to listen at, "IP:PORT".

    Raises:
        ValueError: if nobody can listen there.
        OSError: if the search could not be written, whoever asked.
    """
    answering = _Answering(oracle)
    servicer = OracleServicer(answering)
    # else two processes can listen at one address, each hearing half of the questions
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1), options=[("grpc.so_reuseport", 0)])
    protos.get_service_grpc().add_OracleServicer_to_server(servicer, server)
    try:
        listens = server.add_insecure_port(address) != 0
    except RuntimeError:
        listens = False
    if not listens:
        raise ValueError(f"The address {address} cannot be used. Is another process listening there?")
    server.start()
    try:
        while not answering.has_ended(servicer):
            time.sleep(LOOKS)
    finally:
        server.stop(LAST_WORDS).wait()


class _Answering:
    """An oracle that remembers what went wrong: after that, KerasTuner's lock may stay taken."""

    def __init__(self, oracle: Durable):
        self._oracle, self._lock = oracle, threading.RLock()
        self._failure: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return functools.partial(self._answer, getattr(self._oracle, name))

    def _answer(self, question: Callable[..., Any], *args: Any, **options: Any) -> Any:
        with self._lock:
            if self._failure is not None:
                raise self._failure
            try:
                return question(*args, **options)
            except Exception as error:
                self._failure = error
                raise

    def has_ended(self, servicer: OracleServicer) -> bool:
        """Whether nobody will ask any more; also notices workers that are gone."""

        def look() -> bool:
            self._oracle.requeue_the_dead()
            return servicer.stop_triggered and exit_chief(self._oracle)

        return bool(self._answer(look))
