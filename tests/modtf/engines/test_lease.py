"""One holder at a time: with processes that race, die, and are stopped and wake up again."""

import json
import os
import signal
import time

import pytest

from modtf.engines.lease import Lease, holder
from modtf.engines.owner import Owner
from modtf.termination import Terminated

STALE = 1.0

RACE = """
import sys, time
from modtf.engines.lease import Lease
print("ready", flush=True); sys.stdin.readline()
lease = Lease.acquire(sys.argv[1], "cell")
print(lease is not None, flush=True); sys.stdin.readline()
"""

HOLD = """
import sys, time
from modtf.engines.lease import Lease
lease = Lease.acquire(sys.argv[1], "cell", stale_after=float(sys.argv[2]))
print("held", flush=True)
while not lease._lost:
    time.sleep(0.05)
print("lost", flush=True)
"""


def test_one_of_many_that_race_gets_it(start, tmp_path):
    racers = [start(RACE, tmp_path) for _ in range(5)]
    assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 5
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    assert sorted(racer.stdout.readline() for racer in racers) == ["False\n"] * 4 + ["True\n"]


def test_it_is_held_until_it_is_released(tmp_path):
    lease = Lease.acquire(tmp_path, "cell", stale_after=STALE)
    assert lease is not None
    assert Lease.acquire(tmp_path, "cell") is None
    assert holder(tmp_path, "cell") == str(Owner.here())
    assert Lease.acquire(tmp_path, "cell.2") is not None  # another thing of a similar name
    time.sleep(1.5 * STALE)
    assert holder(tmp_path, "cell", stale_after=STALE) is not None  # its heart beats
    lease.release()
    assert holder(tmp_path, "cell") is None
    again = Lease.acquire(tmp_path, "cell")
    assert again is not None
    assert again.path.name == "cell.2"  # so that nobody who looked long ago can make the first again
    again.release(for_good=True)
    assert not list(tmp_path.glob("cell.[0-9]"))


def test_a_dead_owners_lease_is_free_at_once(start, tmp_path):
    process = start(HOLD, tmp_path, 1000)
    assert process.stdout.readline() == "held\n"
    assert Lease.acquire(tmp_path, "cell", stale_after=1000) is None
    process.kill()  # and not waited for: what is left of it is dead, too
    while holder(tmp_path, "cell", stale_after=1000):
        time.sleep(0.01)
    assert Lease.acquire(tmp_path, "cell", stale_after=1000) is not None


def test_a_process_that_is_ended_while_it_takes_one_leaves_none(tmp_path, monkeypatch):
    def end(handle, *args, **options):
        os.close(handle)
        raise Terminated

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", end)
        with pytest.raises(Terminated):
            Lease.acquire(tmp_path, "cell")
    assert Lease.acquire(tmp_path, "cell") is not None


def test_a_stopped_owner_loses_it_and_knows_when_it_wakes_up(start, tmp_path, eventually):
    process = start(HOLD, tmp_path, STALE)
    assert process.stdout.readline() == "held\n"
    os.kill(process.pid, signal.SIGSTOP)
    assert Lease.acquire(tmp_path, "cell", stale_after=STALE) is None
    lease = eventually(lambda: Lease.acquire(tmp_path, "cell", stale_after=STALE))
    os.kill(process.pid, signal.SIGCONT)
    assert process.stdout.readline() == "lost\n"
    assert not lease.is_lost


def test_being_lost_is_told(tmp_path, eventually):
    told = []
    lease = Lease.acquire(tmp_path, "cell", stale_after=STALE, on_lost=lambda: told.append(True))
    assert lease is not None
    (tmp_path / "cell.2").write_text("{}")  # what another process does when it takes over
    assert lease.is_lost
    eventually(lambda: told)
    lease.release()
    assert [path.name for path in tmp_path.iterdir()] == ["cell.2"]  # the other's is left alone


@pytest.mark.parametrize(
    "content",
    [json.dumps({"machine": "another boot", "pid": 1, "started": "1", "token": "x"}), "", '{"mach', "[]"],
)
def test_what_cannot_be_judged_counts_until_it_is_silent(tmp_path, content):
    """A process of another machine, and one that died while it wrote."""
    path = tmp_path / "cell.7"
    path.write_text(content)
    assert Lease.acquire(tmp_path, "cell", stale_after=100) is None
    os.utime(path, (time.time() - 101, time.time() - 101))
    lease = Lease.acquire(tmp_path, "cell", stale_after=100)
    assert lease is not None
    assert [p.name for p in tmp_path.iterdir()] == ["cell.8"]


def test_a_process_id_that_is_used_again_is_another_process():
    here = Owner.here()
    assert not here.is_dead
    assert Owner(here.machine, here.pid, "12").is_dead
    assert not Owner("elsewhere", here.pid, "12").is_dead  # that cannot be known
    assert Owner.from_dict(here.to_dict()) == here
