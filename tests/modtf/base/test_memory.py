"""How much memory there is, as the system says it; what cannot fit is refused with both numbers."""

import os

import pytest

from modtf import Population, Task
from modtf.base import memory
from modtf.base.memory import ACCELERATOR, check_fits, memory_here
from modtf.tasks.memory import batch_bytes, check_batches, check_members

GB = 10**9


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """machine({path: content}) -> memory_here() of a machine of 8 GB with these files."""

    def here(files):
        for path, content in files.items():
            file = tmp_path / path.strip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        sizes = {"SC_PAGE_SIZE": 1000, "SC_PHYS_PAGES": 8 * GB // 1000}
        monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
        monkeypatch.setattr(memory, "Path", lambda path: tmp_path / str(path).strip("/"))
        return memory_here.__wrapped__()

    return here


def test_accelerators_bring_memory(machine):
    files = {"/dev/nvidia0": "", "/dev/nvidia1": "", "/dev/nvidiactl": ""}
    assert machine(files) == 8 * GB + 2 * ACCELERATOR


def test_both_numbers_and_the_parts_are_named(monkeypatch):
    monkeypatch.setattr(memory, "memory_here", lambda: 8 * GB)
    check_fits("this", {"one": 3 * GB, "other": 5 * GB}, "Take less.")
    message = (
        r"this cannot fit: it needs at least 9\.0 GB of memory \(other 5\.0 GB, one 4\.0 GB\), but only "
        r"8\.0 GB are available\. Take less\."
    )
    with pytest.raises(ValueError, match=message):
        check_fits("this", {"one": 4 * GB, "other": 5 * GB, "little": 1000}, "Take less.")


def test_members_and_batches():
    with pytest.raises(ValueError, match=r"tasks=1e12 cannot fit: .*1,000,000,000,000 members"):
        check_members(10**12, "tasks=1e12")
    population = Population.of(Task("mha", num_rules=4))
    assert batch_bytes(population.task, 3, 5) == 4 * 3 * 5 * 10 * (4 * 4 + 2)
    with pytest.raises(ValueError, match=r"batch_size=10000000000 with 1 members of mha_v1.* and 10 tokens"):
        check_batches(population, 10**10, 10)
