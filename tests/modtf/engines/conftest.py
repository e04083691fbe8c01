"""Cells without training, and processes that work on them."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from dummy import Here

from modtf.engines.run_study import run_study
from modtf.studies import grid
from modtf.tasks.cell import Cell

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PATIENCE = 60.0  # seconds for anything that another process shall do


@pytest.fixture
def cells() -> list[Cell]:
    """Four cells, of widths 4 to 7, with 20 steps each; `dummy` says which of them misbehave."""
    small = {"arch": "mlp", "num_rules": 2, "members": ((0, 0),), "training.steps": 20}
    return grid(width=[4, 5, 6, 7], **small).cells()


@pytest.fixture
def run(cells, tmp_path, monkeypatch, capsys):
    """run(function of `dummy`, engine, **options) -> ((cells finished now, before, failed), what was said,
    Summary)."""
    monkeypatch.syspath_prepend(str(HERE))

    def begin(function, engine=None, chosen=cells, **options):
        with closing(engine or Here()) as engine:
            out, function = tmp_path / "out", f"dummy:{function}"
            summary = run_study(chosen, out, engine, function=function, shown=False, **options)
        counts = summary.finished, summary.before, len(summary.failed)
        return counts, capsys.readouterr().out, summary

    return begin


@pytest.fixture
def start():
    """start("code", *arguments) -> a process that runs it with modtf and `dummy`; ended after the test."""
    processes = []

    def begin(code: str, *arguments: object) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)])}
        command = [sys.executable, "-c", code, *map(str, arguments)]
        how: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(command, text=True, env=environment, **how)
        processes.append(process)
        return process

    yield begin
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait()
        for file in (process.stdin, process.stdout):
            assert file is not None
            file.close()


@pytest.fixture
def eventually():
    """eventually(condition): waits until it is true; fails after a minute."""

    def wait(condition):
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < end, "it did not happen"
            time.sleep(0.02)
        return found

    return wait
