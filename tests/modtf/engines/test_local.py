"""The local engine, with real worker processes; some of them die."""

import os
import re
import signal
from pathlib import Path

import pytest
from dummy import results

from modtf.engines.local import LocalEngine
from modtf.engines.state import is_locked
from modtf.results.schema import PRIVATE

#: arguments OUT FUNCTION WORKERS STEPS CELLS
DRIVE = """
import sys
from contextlib import closing
from modtf.engines.local import LocalEngine
from modtf.engines.run_study import run_study
from modtf.studies import grid

out, function, *numbers = sys.argv[1:]
workers, steps, count = map(int, numbers)
point = {"arch": "mlp", "width": list(range(4, 4 + count)), "num_rules": 2, "training.steps": steps}
cells = grid(**point, members=((0, 0),)).cells()
with closing(LocalEngine(workers, retries=10)) as engine:
    summary = run_study(cells, out, engine, function=f"dummy:{function}", shown=False)
print(summary, flush=True)
sys.exit(bool(summary.failed))
"""


def test_a_worker_that_dies_takes_down_nothing_else(run, cells, tmp_path):
    assert run("dying_once", LocalEngine(2))[0] == (4, 0, 0)
    histories = {path: path.read_text().split() for path in (tmp_path / "out").glob("*/history.csv")}
    assert [sorted(set(map(int, text))) for text in histories.values()] == [list(range(1, 21))] * 4


@pytest.mark.slow
def test_a_cell_that_kills_its_workers_has_failed(run, cells):
    counts, _, summary = run("dying", LocalEngine(2, retries=1))
    assert counts == (3, 0, 1)
    said = summary.failed[cells[2].folder]
    assert re.search(r"2 worker processes died on this cell, the last one by SIGKILL .*\.log", said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "limit", "number"), [(2, {"recycle": 1}, 4), (1, {"growth": 48 << 20}, 2)]
)
def test_workers_are_replaced_and_share_the_processors(run, monkeypatch, workers, limit, number):
    """After a number of cells, or when they hold more memory than after their first cell."""
    begun = []
    begin = LocalEngine._start

    def count(self, threads):
        begun.append(threads)
        return begin(self, threads)

    monkeypatch.setattr(LocalEngine, "_start", count)
    monkeypatch.setattr("modtf.engines.local.processors", lambda: 6)
    assert run("growing", LocalEngine(workers, **limit))[0] == (4, 0, 0)
    assert begun == [6 // workers] * number


@pytest.mark.slow
def test_what_workers_are_given_and_a_worker_that_stays(run, cells, tmp_path, monkeypatch):
    """Threads; a file for what they print; cells of a second study without a second start."""
    engine = LocalEngine(1)
    close = engine.close
    monkeypatch.setattr(engine, "close", lambda: None)
    assert run("printing", engine, cells[:2])[0] == (2, 0, 0)
    ((process, _),) = engine._alive
    assert run("printing", engine, cells[2:])[0] == (2, 0, 0)
    assert [one.pid for one, _ in engine._alive] == [process.pid]
    close()
    logs = tmp_path / "out" / PRIVATE / "logs"
    (log,) = logs.iterdir()
    assert log.read_text().count(f"{len(os.sched_getaffinity(0))} threads") == 4


@pytest.mark.slow
def test_closing_it_early_leaves_cells_in_order_and_no_process(run, cells, tmp_path, monkeypatch, eventually):
    out = tmp_path / "out"

    class Early(LocalEngine):
        def run(self, *arguments):
            for _ in super().run(*arguments):
                yield
                if list(out.glob("*/checkpoint.npz")):
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("slowest_steps", Early(2))
    assert not any(is_locked(out, cell.folder) for cell in cells)
    assert {path.name for path in out.iterdir()} <= {*(cell.folder for cell in cells), PRIVATE}
    assert not list(out.rglob(".writing-*"))
    assert not list((out / PRIVATE / "logs").iterdir())


@pytest.mark.slow
def test_two_studies_in_one_folder_share_the_work(start, tmp_path):
    """They start and finish at the same time; each cell is done by one of them."""
    drivers = [start(DRIVE, tmp_path / "out", "slow_steps", 1, 20, 6) for _ in range(2)]
    ends = [driver.communicate(timeout=100)[0].splitlines()[-1] for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0, 0], ends
    histories = [path.read_text().split() for path in (tmp_path / "out").glob("*/history.csv")]
    assert histories == [[str(step) for step in range(1, 21)]] * 6


@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_driver_that_is_killed(kind, start, tmp_path, eventually):
    """Its workers end. The next run does the remaining work, and nothing twice."""
    driver = start(DRIVE, tmp_path / "out", "slow_steps", 2, 100, 4)
    eventually(lambda: list((tmp_path / "out").glob("*/checkpoint.npz")))
    workers = children(driver.pid)
    assert workers
    driver.send_signal(kind)
    driver.wait(60)
    eventually(lambda: not any(Path(f"/proc/{pid}/stat").exists() for pid in workers))
    again = start(DRIVE, tmp_path / "out", "steps", 2, 100, 4)
    assert again.communicate(timeout=60)[0].splitlines()[-1].startswith("Summary(")
    assert again.returncode == 0
    assert len(results(tmp_path / "out")) == 4
    for path in (tmp_path / "out").glob("*/history.csv"):
        steps = [int(line) for line in path.read_text().split()]
        assert sorted(set(steps)) == list(range(1, 101))
        assert len(steps) <= 101  # at most the step that was being written


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
