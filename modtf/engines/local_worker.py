"""A worker process of the local engine: as its driver sees it, and what runs in it.

The driver starts `python -m modtf.engines.local_worker HANDLE DRIVER`, which serves cells through a pipe.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from modtf.cell import Cell
from modtf.engines.processors import thread_variables
from modtf.engines.work import Outcome, Work, work_on
from modtf.termination import exit_on_sigterm

PATIENCE = 60.0  # seconds that a worker has to leave its cell in order when the study is interrupted
DRIVER_GONE = 76  # exit status of a worker whose driver was killed
EVERY = 0.5  # seconds between reports, and between looks whether the driver is there


class LocalWorker:
    """A fresh interpreter that works on cells, one at a time.

    Args:
        work: where and how.
        threads: how many it may use.
        log: file that takes all it prints: the terminal belongs to the progress bar.

    `cell` is what it works on, `count` how many it was given; `connection` is readable when it has news.
    """

    def __init__(self, work: Work, threads: int, log: Path):
        self.cell: Cell | None = None
        self.count = 0
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        self.connection, theirs = Pipe()
        paths = [os.path.abspath(path) for path in sys.path]  # as here, whatever put them there
        environment = {**os.environ, **thread_variables(threads), "PYTHONPATH": os.pathsep.join(paths)}
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                env=environment,
            )
        theirs.close()
        self._send(work)

    def give(self, cell: Cell) -> None:
        """Gives it a cell to work on."""
        self.cell, self.count = cell, self.count + 1
        self._send(cell.to_dict())

    def news(self) -> int | Outcome | None:
        """Steps that it has done of its cell, the outcome, or None if the process has ended."""
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.wait()
            return None

    def terminate(self) -> None:
        """Tells it to leave its cell and end; `dismiss` waits for that."""
        self.process.terminate()

    def dismiss(self) -> None:
        """Has it end when it is idle, and waits for that; kills it if that takes too long."""
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
        """In words, for errors."""
        status = self.process.returncode
        if status >= 0:
            return f"with exit status {status}"
        memory = " (is there enough memory?)" if -status == signal.SIGKILL else ""
        return f"by {signal.Signals(-status).name}{memory}"

    def _send(self, thing: object) -> None:
        with contextlib.suppress(OSError):  # it has died; `news` says so
            self.connection.send(thing)


def main() -> None:
    """Serves the driver that started this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the driver decides
    _end_with(int(sys.argv[2]))
    with exit_on_sigterm():
        serve(Connection(int(sys.argv[1])))


def serve(connection: Connection) -> None:
    """Works on the cells that come through the connection, after the `Work`, until there is None.

    Answers with numbers of steps done, not too often, then with the outcome.
    """
    told = 0.0

    def report(steps: int) -> None:
        nonlocal told
        if time.monotonic() - told > EVERY:
            told = time.monotonic()
            try:
                connection.send(steps)
            except OSError:
                os._exit(DRIVER_GONE)  # it must not look like an error of the cell's

    try:
        work: Work = connection.recv()
        function = work.prepare()
        while (config := connection.recv()) is not None:
            told = 0.0
            connection.send(work_on(Cell.from_dict(config), work, function, report))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(DRIVER_GONE)


def _end_with(driver: int) -> None:
    """A worker whose driver was killed ends at once; its cell goes on from its checkpoint in the next run."""

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(EVERY)
        os._exit(DRIVER_GONE)

    threading.Thread(target=watch, name="watch the driver", daemon=True).start()


if __name__ == "__main__":
    main()
