"""The local engine, with real worker processes; some of them die."""

import os
import re
import signal
from contextlib import closing
from pathlib import Path

import pytest
from dummy import results

from modtf.engines.local import LocalEngine, LocalWorker
from modtf.engines.lock import is_locked
from modtf.results.schema import PRIVATE

#: arguments OUT FUNCTION WORKERS STEPS CELLS
DRIVE = """
import sys
from modtf.engines.local import LocalEngine
from modtf.engines.run_study import run_study
from modtf.engines.work import Work
from modtf.studies import grid

out, function, *numbers = sys.argv[1:]
workers, steps, count = map(int, numbers)
point = {"arch": "mlp", "width": list(range(4, 4 + count)), "num_rules": 2, "training.steps": steps}
engine, work = LocalEngine(workers, retries=10), Work(out, f"dummy:{function}")
summary = run_study(grid(**point, members=((0, 0),)).cells(), work, engine, shown=False)
print(dict(summary.counts), flush=True)
sys.exit(not summary.is_good)
"""


def test_a_worker_that_dies_takes_down_nothing_else(run, cells, tmp_path):
    assert run("dying_once", LocalEngine(2))[0] == {"finished": 4}
    histories = {path: path.read_text().split() for path in (tmp_path / "out").glob("*/history.csv")}
    assert [sorted(set(map(int, text))) for text in histories.values()] == [list(range(1, 21))] * 4


@pytest.mark.slow
def test_a_cell_that_kills_its_workers_has_failed(run, cells):
    counts, _, summary = run("dying", LocalEngine(2, retries=1))
    assert counts == {"finished": 3, "failed": 1}
    said = summary.failed[cells[2].folder]
    assert re.search(r"2 worker processes died on this cell, the last one by SIGKILL .*\.log", said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "limit", "number"), [(2, {"recycle": 1}, 4), (1, {"growth": 48 << 20}, 2)]
)
def test_workers_are_replaced_and_share_the_processors(run, monkeypatch, workers, limit, number):
    """After a number of cells, or when they hold more memory than after their first cell."""
    begun = []
    begin = LocalWorker.__init__

    def count(self, work, threads, log):
        begun.append(threads)
        begin(self, work, threads, log)

    monkeypatch.setattr(LocalWorker, "__init__", count)
    monkeypatch.setattr("modtf.engines.local.processors", lambda: 6)
    assert run("growing", LocalEngine(workers, **limit))[0] == {"finished": 4}
    assert begun == [6 // workers] * number


@pytest.mark.slow
def test_what_workers_are_given_and_tell(cells, work, tmp_path):
    """Threads; a file for what they print; steps, and one end of each cell."""
    events = list(LocalEngine(1).run(cells, work("printing")))
    ends = [event.cell.folder for event in events if event.outcome]
    assert ends == [cell.folder for cell in cells]
    assert all(0 < event.steps <= 20 for event in events)
    (log,) = (tmp_path / "out" / PRIVATE / "logs").iterdir()
    assert log.read_text().count(f"{len(os.sched_getaffinity(0))} threads") == 4


@pytest.mark.slow
def test_closing_it_early_leaves_cells_in_order_and_no_process(cells, work, tmp_path, eventually):
    events = LocalEngine(2).run(cells, work("slowest_steps"))
    with closing(events):
        next(events)
    assert not any(is_locked(tmp_path / "out", cell.folder) for cell in cells)
    assert list((tmp_path / "out").glob("*/checkpoint.npz"))  # of whose news came; the other may have none
    assert {path.name for path in (tmp_path / "out").iterdir()} <= {*(cell.folder for cell in cells), PRIVATE}
    assert not list((tmp_path / "out").rglob(".writing-*"))


@pytest.mark.slow
def test_two_studies_in_one_folder_share_the_work(start, tmp_path):
    """They start and finish at the same time; each cell is done by one of them."""
    drivers = [start(DRIVE, tmp_path / "out", "slow_steps", 1, 20, 6) for _ in range(2)]
    ends = [driver.communicate(timeout=100)[0].splitlines()[-1] for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0, 0]
    finished = [int(found[1]) for end in ends if (found := re.search(r"'finished': (\d)", end))]
    assert sum(finished) == 6
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
    assert again.communicate(timeout=60)[0].splitlines()[-1].startswith("{")
    assert again.returncode == 0
    assert len(results(tmp_path / "out")) == 4
    for path in (tmp_path / "out").glob("*/history.csv"):
        steps = [int(line) for line in path.read_text().split()]
        assert sorted(set(steps)) == list(range(1, 101))
        assert len(steps) <= 101  # at most the step that was being written


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
