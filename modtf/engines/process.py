"""A worker process, as its driver sees it."""

import contextlib
import os
import signal
import subprocess
import sys
from multiprocessing import Pipe
from pathlib import Path

from modtf.cell import Cell
from modtf.engines.perform import Outcome, Work
from modtf.engines.threads import thread_variables

PATIENCE = 60.0  # seconds that a worker has to leave its cell in order when the study is interrupted


class WorkerProcess:
    """A fresh interpreter that performs cells, one at a time.

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
                [sys.executable, "-m", "modtf.engines.worker", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                env=environment,
            )
        theirs.close()
        self._send(work)

    def give(self, cell: Cell) -> None:
        """Gives it a cell to perform."""
        self.cell, self.count = cell, self.count + 1
        self._send(cell.to_dict())

    def news(self) -> int | Outcome | None:
        """Steps that it has done of its cell, the outcome, or None if the process has ended."""
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.wait()
            return None

    def dismiss(self) -> None:
        """Ends it when it is idle."""
        self._send(None)
        self._end()

    def terminate(self) -> None:
        """Tells it to leave its cell and end; `join` waits for that."""
        self.process.terminate()

    def join(self) -> None:
        """Waits until it has ended, and kills it if that takes too long."""
        self._end()

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

    def _end(self) -> None:
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.connection.close()
        if self.log.exists() and not self.log.stat().st_size:
            self.log.unlink()
