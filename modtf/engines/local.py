"""Worker processes on this machine: the driver's side, and the worker's.

`concurrent.futures.ProcessPoolExecutor` is unsuitable: if one of its processes is killed, for example for
lack of memory, the pool breaks and ends the cells of all other processes.
"""

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from modtf.base.checks import check_integer
from modtf.base.memory import memory_of
from modtf.base.termination import exit_on_sigterm
from modtf.engines import register_engine
from modtf.engines.work import Event, Outcome, Work, work_on
from modtf.results.schema import PRIVATE
from modtf.tasks.cell import Cell
from modtf.training.machine import default_workers, processors, thread_variables

PATIENCE = 60.0  # seconds for a worker to save its cell when the study is interrupted
DRIVER_GONE = 76  # exit status of a worker whose driver was killed
SERVE = "import sys; from modtf.engines.local import main; main(*map(int, sys.argv[1:]))"
EVERY = 0.5  # seconds between reports, and between checks that the driver lives


@register_engine("local")
class LocalEngine:
    """Fresh interpreters that run one cell at a time. A worker that dies affects its own cell only.

    Args:
        workers: how many; by default one per processor, or one if there is a GPU.
        recycle: cells after which a worker is replaced.
        retries: how often a cell is retried after the death of its worker before it counts as failed.
        growth: bytes; a worker is replaced when its memory has grown by more since its first cell, because
            TensorFlow releases no program that XLA compiled.
    """

    is_here = True

    def __init__(
        self, workers: int | None = None, recycle: int = 20, retries: int = 2, growth: int = 1 << 30
    ):
        self.workers = default_workers() if workers is None else check_integer("workers", workers, 1)
        self.recycle = check_integer("recycle", recycle, 1)
        self.retries = check_integer("retries", retries, 0)
        self.growth = check_integer("growth", growth, 0)
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
                idle = [worker for worker in workers if worker.cell is None]
                for _ in range(min(size - len(workers), len(waiting) - len(idle))):
                    idle.append(LocalWorker(work, threads, next(logs)))
                    workers.append(idle[-1])
                for worker in idle[: len(waiting)]:
                    worker.give(waiting.popleft())
                by_connection: dict[Any, LocalWorker] = {worker.connection: worker for worker in workers}
                for connection in wait(list(by_connection)):
                    yield from self._hear(by_connection[connection], workers, waiting, work)
        except BaseException:
            for worker in workers:
                worker.process.terminate()  # it saves its cell; `dismiss` waits for that
            raise
        finally:
            for worker in workers:
                worker.dismiss()

    def _hear(
        self, worker: "LocalWorker", workers: "list[LocalWorker]", waiting: deque[Cell], work: Work
    ) -> Iterator[Event]:
        """Yield a worker's news; remove a worker that has died, or reached its number of cells or memory."""
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
            if worker.count >= self.recycle or worker.growth() > self.growth:
                workers.remove(worker)
                worker.dismiss()
            yield Event(cell, cell.protocol.training.steps, news)

    def _died(self, worker: "LocalWorker", cell: Cell, waiting: deque[Cell], work: Work) -> Iterator[Event]:
        self._deaths[cell.folder] += 1
        deaths = self._deaths[cell.folder]
        if deaths <= self.retries:
            waiting.append(cell)  # it resumes from its last checkpoint
            return

        def fail(*_: Any) -> None:
            how = worker.how_it_ended()
            raise RuntimeError(
                f"{deaths} worker processes died on this cell, the last one {how}; {worker.log} holds their "
                "output"
            )

        yield Event(cell, 0, work_on(cell, work, fail))


class LocalWorker:
    """A fresh interpreter that works on cells, one at a time.

    `cell` is its current cell, and `count` the number of cells so far. `connection` is readable when there is
    news. Its output goes to `log`, because the terminal belongs to the progress bar.
    """

    def __init__(self, work: Work, threads: int, log: Path):
        self.cell: Cell | None = None
        self.count = self._memory = 0  # memory after the first cell
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        self.connection, other_end = Pipe()
        paths = [os.path.abspath(path) for path in sys.path]  # the same import paths as in this process
        environment = {**os.environ, **thread_variables(threads), "PYTHONPATH": os.pathsep.join(paths)}
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVE, str(other_end.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[other_end.fileno()],
                env=environment,
            )
        other_end.close()
        self._send(work)

    def give(self, cell: Cell) -> None:
        """Give the worker a cell."""
        self.cell, self.count = cell, self.count + 1
        self._send(cell.to_dict())

    def news(self) -> int | Outcome | None:
        """Return the finished steps of the cell, the outcome, or None if the process has ended."""
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.wait()
            return None

    def growth(self) -> int:
        """Return the bytes by which the idle worker's memory has grown since its first cell."""
        memory = memory_of(self.process.pid)
        self._memory = self._memory or memory
        return memory - self._memory

    def dismiss(self) -> None:
        """End the worker when it is idle, and wait for that; kill it if that takes too long."""
        self._send(None)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.connection.close()
        if self.log.exists() and not self.log.stat().st_size:
            self.log.unlink()

    def how_it_ended(self) -> str:
        """Return in words how the process ended, for errors."""
        status = self.process.returncode
        if status >= 0:
            return f"with exit status {status}"
        memory = " (is there enough memory?)" if -status == signal.SIGKILL else ""
        return f"by {signal.Signals(-status).name}{memory}"

    def _send(self, thing: object) -> None:
        with contextlib.suppress(OSError):  # it has died; `news` reports that
            self.connection.send(thing)


def main(handle: int, driver: int) -> None:
    """Serve the driver that started this process; end at once if the driver is killed.

    The next run then resumes the cell from its checkpoint.
    """

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(EVERY)
        os._exit(DRIVER_GONE)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the driver decides
    threading.Thread(target=watch, name="watch the driver", daemon=True).start()
    with exit_on_sigterm():
        serve(Connection(handle))


def serve(connection: Connection) -> None:
    """Work on the cells that arrive through the connection, after the `Work`, until None arrives.

    The answers are numbers of finished steps, at limited intervals, then the outcome.
    """
    told = 0.0

    def report(steps: int) -> None:
        nonlocal told
        if time.monotonic() - told > EVERY:
            told = time.monotonic()
            try:
                connection.send(steps)
            except OSError:
                os._exit(DRIVER_GONE)  # this is not a failure of the cell

    try:
        work: Work = connection.recv()
        function = work.prepare()
        while (config := connection.recv()) is not None:
            told = 0.0
            connection.send(work_on(Cell.from_dict(config), work, function, report))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(DRIVER_GONE)
