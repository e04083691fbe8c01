"""Searches whose trials cost nothing, and processes that share them."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modtf.engines.perform import Work
from modtf.tuning import Search
from modtf.tuning.role import Role
from modtf.tuning.trials import Trial, trials_of

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PATIENCE = 120.0  # seconds for anything that another process shall do


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    monkeypatch.setenv("MODTF_XLA_CACHE", "0")
    return Work(str(tmp_path / "tuning"), "cheap:train")


def _eventually(condition: Any) -> Any:
    """Waits until a condition is true, and returns what it is."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return found


class Tune:
    """tune(search, limit) -> its trials, after it has run or gone on; `said` is what it printed."""

    def __init__(self, work: Work):
        self.work = work
        self.said: list[str] = []

    def __call__(self, search: Search, limit: int | None = None, **options: Any) -> list[Trial]:
        from modtf.tuning.run import run_search

        work = replace(self.work, **options)
        run_search(search, work, Role("tuner0"), limit, say=self.said.append, shown=False)
        return trials_of(search, search.folder(work.out))


@pytest.fixture
def tune(work: Work) -> Tune:
    return Tune(work)


class Tuning:
    """A process that tunes."""

    def __init__(self, pid: int, log: Path):
        self.pid, self.log = pid, log

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def end(self) -> str:
        """Waits for it; returns what it printed."""
        _eventually(lambda: "ended " in self.said())
        assert "ended 0" in self.said(), self.said()
        return self.said()


@pytest.fixture
def eventually() -> Any:
    """eventually(condition): waits until it is true."""
    return _eventually


@pytest.fixture(scope="module")
def forker() -> Iterator[subprocess.Popen[str]]:
    """`drive_tuning.py`, with the backend of Keras that loads fastest: nothing is computed."""
    paths = os.pathsep.join([str(ROOT), str(HERE)])
    process = subprocess.Popen(
        [sys.executable, str(HERE / "drive_tuning.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths, "KERAS_BACKEND": "numpy"},
    )
    yield process
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait()
    process.stdout.close()


@pytest.fixture
def start(forker: subprocess.Popen[str], tmp_path: Path) -> Iterator[Any]:
    """start(name, axis, limit=None, **environment) -> a `Tuning` in tmp_path/tuning; killed in the end."""
    begun: list[Tuning] = []

    def begin(name: str, axis: str, limit: int | None = None, **environment: str) -> Tuning:
        log = tmp_path / f"{name}.log"
        request = {
            "folder": str(tmp_path / "tuning"),
            "axis": axis,
            "limit": limit,
            "log": str(log),
            "environment": {"HOLD": str(tmp_path / "hold"), **environment},
        }
        assert forker.stdin is not None
        assert forker.stdout is not None
        forker.stdin.write(json.dumps(request) + "\n")
        forker.stdin.flush()
        begun.append(Tuning(int(forker.stdout.readline()), log))
        return begun[-1]

    yield begin
    for process in begun:
        if "ended" not in process.said():
            process.kill()


@pytest.fixture
def together() -> Callable[[str], dict[str, str]]:
    """The variables that a chief and its workers share."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return lambda name: {
        "KERASTUNER_TUNER_ID": name,
        "KERASTUNER_ORACLE_IP": "127.0.0.1",
        "KERASTUNER_ORACLE_PORT": str(port),
    }
