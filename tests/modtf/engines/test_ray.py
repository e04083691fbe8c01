"""The ray engine, on a cluster of two nodes that both run on this machine; one of them is killed."""

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from dummy import results

from modtf.engines.on_ray import RayEngine, start

ray = pytest.importorskip("ray", reason="Ray is not installed (the extra `cluster`)")

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80_000_000}  # bytes, which nothing is put into


def listening():
    """Return the addresses (hexadecimal, as in /proc) and ports with a listener on this machine."""
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()
    ]
    return {tuple(line[1].split(":")) for line in lines if line[3] == "0A"}


@pytest.mark.skipif(sys.platform != "linux", reason="as Linux tells it")
def test_one_of_our_own_listens_on_the_loopback_address_alone(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    before = listening()
    start(ray)
    ours = listening() - before
    ray.shutdown()
    ray._private.ray_constants.ENABLE_RAY_CLUSTER = True
    assert ours
    assert {address for address, _ in ours} <= {"0100007F", "0000000000000000FFFF00000100007F"}


@pytest.fixture(scope="module")
def cluster():
    """(the cluster, its second node)."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    second = made.add_node(**NODE)
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    yield made, second
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def on_ray(cluster, monkeypatch):
    """on_ray(retries) -> the engine, whose workers find `dummy`."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE.parents[2]), str(HERE)]))
    return lambda retries=2: RayEngine(retries=retries)


def test_a_study_is_run_once_and_a_failed_cell_does_not_end_it(run, on_ray, cells, tmp_path):
    counts, _, summary = run("raising", on_ray())
    assert counts == (3, 0, 1)
    assert summary.failed == {cells[2].folder: "ValueError: this cell cannot be trained"}
    assert run("steps", on_ray(), retry_failed=True)[0] == (1, 3, 0)
    assert results(tmp_path / "out") == {cell.folder: f"{cell.label},20\n" for cell in cells}


def test_a_worker_that_dies_is_replaced(run, on_ray):
    assert run("dying_once", on_ray())[0] == (4, 0, 0)


def test_a_cell_that_kills_its_workers_has_failed(run, on_ray, cells):
    counts, _, summary = run("dying", on_ray(retries=1))
    assert counts == (3, 0, 1)
    assert "WorkerCrashedError after 1 retries" in summary.failed[cells[2].folder]


def test_a_node_that_dies_in_the_middle_loses_nothing(run, on_ray, cluster, tmp_path):
    """This test runs last, because afterwards the cluster has one node."""
    (made, second), over = cluster, threading.Event()

    def kill():
        while len(list((tmp_path / "out").glob("*/checkpoint.npz"))) < 2 and not over.is_set():
            time.sleep(0.02)  # until both nodes are in the middle of a cell
        made.remove_node(second, allow_graceful=False)

    thread = threading.Thread(target=kill, daemon=True)  # a failure must not wait for it
    thread.start()
    counts, _, _ = run("slowest_steps", on_ray())
    over.set()
    thread.join()
    assert counts == (4, 0, 0)
    for path in (tmp_path / "out").glob("*/history.csv"):
        assert sorted(set(map(int, path.read_text().split()))) == list(range(1, 21))
