"""Worker processes on this machine."""

import itertools
import os
import socket
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from modtf.cell import Cell
from modtf.checks import check_integer
from modtf.engines import register_engine
from modtf.engines.local_worker import LocalWorker
from modtf.engines.processors import default_workers, processors
from modtf.engines.work import Event, Outcome, Work, work_on
from modtf.results.schema import PRIVATE


@register_engine("local")
class LocalEngine:
    """Fresh interpreters, each one cell at a time; one that dies takes down its own cell alone.

    Args:
        workers: how many; by default one per processor, or one where there is a GPU.
        recycle: cells after which a worker is replaced, so that neither memory nor programs pile up.
        retries: how often a cell whose worker died is tried again before that counts as its failure.
    """

    is_here = True

    def __init__(self, workers: int | None = None, recycle: int = 20, retries: int = 2):
        self.workers = default_workers() if workers is None else check_integer("workers", workers, 1)
        self.recycle = check_integer("recycle", recycle, 1)
        self.retries = check_integer("retries", retries, 0)
        self._deaths: Counter[str] = Counter()

    def run(self, cells: Sequence[Cell], work: Work) -> Generator[Event, None, None]:
        """See `Engine`."""
        waiting, workers = deque(cells), list[LocalWorker]()
        size = min(len(cells), self.workers)
        threads = max(1, processors() // max(1, size))
        driver = Path(work.out, PRIVATE, "logs", f"{socket.gethostname()}-{os.getpid()}")
        logs = (Path(f"{driver}-{n}.log") for n in itertools.count())
        try:
            while waiting or any(worker.cell for worker in workers):
                while len(workers) < size and len(waiting) > sum(worker.cell is None for worker in workers):
                    workers.append(LocalWorker(work, threads, next(logs)))
                for worker in workers:
                    if worker.cell is None and waiting:
                        worker.give(waiting.popleft())
                ready = wait([worker.connection for worker in workers])
                for worker in [worker for worker in workers if worker.connection in ready]:
                    yield from self._hear(worker, workers, waiting, work)
        except BaseException:
            for worker in workers:
                worker.terminate()
            raise
        finally:
            for worker in workers:
                worker.dismiss()

    def _hear(
        self, worker: LocalWorker, workers: list[LocalWorker], waiting: deque[Cell], work: Work
    ) -> Iterator[Event]:
        """A worker's news; one that has died or done its share is removed."""
        cell, news = worker.cell, worker.news()
        if news is None:
            workers.remove(worker)
            worker.dismiss()
            if cell is not None:
                yield from self._died(worker, cell, waiting, work)
        elif cell is not None and isinstance(news, int):
            yield Event(cell, news)
        elif cell is not None and isinstance(news, Outcome):
            worker.cell = None
            if worker.count >= self.recycle:
                workers.remove(worker)
                worker.dismiss()
            yield Event(cell, cell.protocol.training.steps, news)

    def _died(self, worker: LocalWorker, cell: Cell, waiting: deque[Cell], work: Work) -> Iterator[Event]:
        self._deaths[cell.folder] += 1
        deaths = self._deaths[cell.folder]
        if deaths <= self.retries:
            waiting.append(cell)  # goes on from its last checkpoint
            return

        def fail(*_: Any) -> None:
            how = worker.how_it_ended()
            raise RuntimeError(f"{deaths} workers died on it, the last one {how}; see {worker.log}")

        yield Event(cell, 0, work_on(cell, work, fail))
