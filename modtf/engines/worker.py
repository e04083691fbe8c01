"""A worker of the local engine: `python -m modtf.engines.worker HANDLE`, started by `WorkerProcess`."""

import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection

from modtf.cell import Cell
from modtf.engines.perform import Work, perform
from modtf.termination import exit_on_sigterm

DRIVER_GONE = 76  # exit status of a worker whose driver was killed
LOST = 77  # exit status of a worker whose cell was taken over
EVERY = 0.5  # seconds between reports, and between looks whether the driver is there


def serve(connection: Connection) -> None:
    """Performs the cells that come through the connection, after the `Work`, until there is None.

    Answers with numbers of steps done, then with the outcome.
    """
    try:
        work: Work = connection.recv()
        function = work.prepare()
        while (config := connection.recv()) is not None:
            report = _Reporter(connection)
            cell = Cell.from_dict(config)
            connection.send(perform(cell, work, function, report, on_lost=lambda: os._exit(LOST)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(DRIVER_GONE)


class _Reporter:
    """Tells the driver, not too often, how far a cell is."""

    def __init__(self, connection: Connection):
        self.connection, self.last = connection, 0.0

    def __call__(self, steps: int) -> None:
        now = time.monotonic()
        if now - self.last > EVERY:
            self.last = now
            try:
                self.connection.send(steps)
            except OSError:
                os._exit(DRIVER_GONE)  # it must not look like an error of the cell's


def _end_with(driver: int) -> None:
    """A worker whose driver was killed ends at once; its cell goes on from its checkpoint in the next run."""

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(EVERY)
        os._exit(DRIVER_GONE)

    threading.Thread(target=watch, name="watch the driver", daemon=True).start()


def main() -> None:
    """Serves the driver that started this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the driver decides
    _end_with(int(sys.argv[2]))
    with exit_on_sigterm():
        serve(Connection(int(sys.argv[1])))


if __name__ == "__main__":
    main()
