"""The ray engine, on a cluster of two nodes that both run on this machine; one of them is killed."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from modtf.engines.on_ray import RayEngine
from modtf.engines.run_study import run_study
from modtf.engines.work import Work

ray = pytest.importorskip("ray", reason="Ray is not installed (the extra `cluster`)")

HERE = Path(__file__).parent
MEMORY = "80000000"  # bytes of a node's object store, which nothing is put into


def node(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A node of a cluster, in the foreground of a process of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HERE.parents[2]), str(HERE)]),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    command = [str(Path(sys.executable).with_name("ray")), "start", *arguments]
    command += ["--block", "--num-cpus=1", f"--object-store-memory={MEMORY}"]
    with (folder / "ray.log").open("ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)


def raylet_of(process: subprocess.Popen[bytes]) -> int | None:
    """The process id of a node's raylet, which is all that others see of it."""
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        if Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[0].endswith(b"raylet"):
            return int(child)
    return None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """(its address, the process of its second node)."""
    folder = tmp_path_factory.mktemp("ray")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"127.0.0.1:{port}"
    short = f"--temp-dir=/tmp/modtf-ray-{os.getpid()}"  # sockets have short names
    head = node(folder, "--head", f"--port={port}", short, "--include-dashboard=false")
    nodes = [head]
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        nodes.append(node(folder, f"--address={address}"))
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        for _ in range(300):
            if len([n for n in ray.nodes() if n["Alive"]]) == 2:
                break
            time.sleep(0.2)
        else:
            pytest.skip(f"No second node came up: {(folder / 'ray.log').read_text()[-500:]}")
        yield address, nodes[1]
    finally:
        ray.shutdown()
        for process in reversed(nodes):
            process.terminate()  # its node ends with it
        for process in nodes:
            process.wait(60)
        shutil.rmtree(f"/tmp/modtf-ray-{os.getpid()}", ignore_errors=True)


@pytest.fixture
def run(cluster, cells, tmp_path, monkeypatch):
    """run(function) -> (counts of outcomes, Summary)."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE.parents[2]), str(HERE)]))

    def begin(function, retries=2):
        work = Work(str(tmp_path / "out"), f"dummy:{function}")
        engine = RayEngine(retries=retries)
        summary = run_study(cells, work, engine, shown=False)
        return dict(summary.counts), summary

    return begin


def test_a_study_is_run_once(run, cells, tmp_path):
    assert run("steps")[0] == {"finished": 4}
    assert run("steps")[0] == {"skipped": 4}
    found = {path.parent.name: path.read_text() for path in (tmp_path / "out").glob("*/results.csv")}
    assert found == {cell.folder: f"{cell.label},20\n" for cell in cells}


def test_failures(run, cells):
    counts, summary = run("raising")
    assert counts == {"finished": 3, "failed": 1}
    assert summary.failed == {cells[2].folder: "ValueError: this cell cannot be trained"}


def test_a_worker_that_dies_is_replaced(run):
    assert run("dying_once")[0] == {"finished": 4}


def test_a_cell_that_kills_its_workers_has_failed(run, cells):
    counts, summary = run("dying", retries=1)
    assert counts == {"finished": 3, "failed": 1}
    assert "WorkerCrashedError after 1 retries" in summary.failed[cells[2].folder]


def test_a_node_that_dies_in_the_middle_loses_nothing(run, cluster, tmp_path):
    """The last of all tests here: afterwards the cluster has one node."""
    raylet = raylet_of(cluster[1])
    assert raylet is not None
    killed = []

    def kill():
        while len(list((tmp_path / "out").glob("*/checkpoint.npz"))) < 2:
            time.sleep(0.02)  # until both nodes are in the middle of a cell
        os.kill(raylet, signal.SIGKILL)
        killed.append(raylet)

    thread = threading.Thread(target=kill)
    thread.start()
    counts, summary = run("slowest_steps")
    thread.join()
    assert killed
    assert (counts, summary.is_good) == ({"finished": 4}, True)
    for path in (tmp_path / "out").glob("*/history.csv"):
        assert sorted(set(map(int, path.read_text().split()))) == list(range(1, 21))
