"""Worker processes on this machine: the driver's side, and the worker's.

Each worker takes the next cell whose lock is free. `concurrent.futures.ProcessPoolExecutor` is unsuitable: if
one of its processes is killed, for example for lack of memory, the pool breaks and ends the cells of all
other processes.
"""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from modtf.base.checks import check_integer
from modtf.base.extras import keras_backend
from modtf.base.files import read_text, write_text
from modtf.base.memory import memory_of
from modtf.base.plugins import load_plugin
from modtf.base.process import exit_on_sigterm
from modtf.base.registry import resolve
from modtf.engines import register_engine
from modtf.engines.state import EVERY, StopError, fail_cell, holders, is_open, this_process, work_on
from modtf.results.schema import PRIVATE
from modtf.tasks.cell import Cell
from modtf.training.machine import default_workers, processors, thread_variables

PATIENCE = 60.0  # seconds for a worker to save its cell when the study is interrupted
DRIVER_GONE, REPLACE, STOP = 76, 77, 78  # exit statuses of workers
WORK = "import sys; from modtf.engines.local import main; main(*sys.argv[1:])"


@register_engine("local")
class LocalEngine:
    """Fresh interpreters that run one cell at a time. A worker that dies affects its own cell only.

    Workers stay until `close`, for the cells of the next `run`.

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
        self._alive: list[tuple[subprocess.Popen[bytes], Path]] = []  # each with its log
        self._number = itertools.count()
        self._list: Path | None = None  # the file from which workers read their cells

    def run(self, cells: Sequence[Cell], out: str, plugins: Sequence[str], function: str) -> Iterator[None]:
        """See `Engine`."""
        if find_spec(backend := keras_backend()) is None:
            import_module(backend)  # here the error is one line; workers would end without a cell
        size = min(len(cells), self.workers)
        self._list = Path(out, PRIVATE, "logs", f"{socket.gethostname()}-{os.getpid()}.json")
        options = {"recycle": self.recycle, "growth": self.growth}
        work = {"out": str(out), "plugins": [*plugins], "function": function, **options}
        by_folder = {cell.folder: cell for cell in cells}
        listed = {name: cell.to_dict() for name, cell in by_folder.items()}
        write_text(self._list, json.dumps({**work, "cells": listed}))
        while left := [name for name in by_folder if is_open(out, name)]:
            self._bury(out, by_folder)
            while len(self._alive) < min(size, len(left)):
                self._alive.append(self._start(max(1, processors() // size)))
            yield
            time.sleep(EVERY)

    def _start(self, threads: int) -> tuple["subprocess.Popen[bytes]", Path]:
        """Start a worker. Its output goes to a log, because the terminal belongs to the progress bar."""
        assert self._list is not None
        paths = [os.path.abspath(path) for path in sys.path]  # the same import paths as in this process
        environment = {**os.environ, **thread_variables(threads), "PYTHONPATH": os.pathsep.join(paths)}
        command = [sys.executable, "-c", WORK, str(self._list), str(os.getpid())]
        log = self._list.with_name(f"{self._list.stem}-{next(self._number)}.log")
        with log.open("ab") as output:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            ), log

    def _bury(self, out: str, cells: dict[str, Cell]) -> None:
        """Forget workers that have ended. A cell that has killed too many counts as failed."""
        for process, log in [one for one in self._alive if one[0].poll() is not None]:
            self._alive.remove((process, log))
            status = process.returncode
            if status == STOP:
                raise StopError(read_text(log).splitlines()[-1])
            _remove_empty(log)
            if status == REPLACE:
                continue
            who = this_process(process.pid)
            name = next((name for name, (holder, _) in holders(out).items() if holder == who), "")
            self._deaths[name] += 1
            deaths = self._deaths[name]
            if deaths <= self.retries:
                continue  # the cell resumes from its last checkpoint
            words = f"the last one {_ended(status)}; {log} holds their output"
            if name not in cells:
                raise StopError(f"{deaths} worker processes ended before they took a cell, {words}.")
            fail_cell(cells[name], out, f"{deaths} worker processes died on this cell, {words}")

    def close(self) -> None:
        """See `Engine`."""
        for process, _ in self._alive:
            process.terminate()  # it saves its cell
        for process, log in self._alive:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _remove_empty(log)
        self._alive.clear()
        if self._list is not None:
            self._list.unlink(missing_ok=True)


def _remove_empty(log: Path) -> None:
    if log.exists() and not log.stat().st_size:
        log.unlink()


def _ended(status: int) -> str:
    """Return in words how a process ended, for errors."""
    if status >= 0:
        return f"with exit status {status}"
    memory = " (is there enough memory?)" if -status == signal.SIGKILL else ""
    return f"by {signal.Signals(-status).name}{memory}"


def main(path: str, driver: str) -> None:
    """Work on the cells that a file lists, and then on those that it lists anew, until this process is
    terminated.

    It ends at once if its driver is killed. The next run then resumes the cell from its checkpoint.
    """

    def watch() -> None:
        while os.getppid() == int(driver):
            time.sleep(EVERY)
        os._exit(DRIVER_GONE)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the driver decides
    threading.Thread(target=watch, name="watch the driver", daemon=True).start()
    with exit_on_sigterm():
        work = json.loads(read_text(path))
        for plugin in work["plugins"]:
            load_plugin(plugin)
        function, out, count, first = resolve(work["function"]), work["out"], 0, 0
        while True:
            for name, config in work["cells"].items():
                try:
                    done = is_open(out, name) and work_on(Cell.from_dict(config), out, function)
                except StopError as error:
                    print(error, file=sys.stderr, flush=True)
                    sys.exit(STOP)
                if done:
                    count, memory = count + 1, memory_of(os.getpid())
                    first = first or memory
                    if count == work["recycle"] or memory - first > work["growth"]:
                        sys.exit(REPLACE)
            time.sleep(EVERY)
            work = json.loads(read_text(path))
