"""A cell that cannot fit in memory is rejected, whichever size is too large; one that fits is accepted."""

from dataclasses import replace

import pytest

import modtf
from modtf import Cell, Task
from modtf.families import with_free_rules
from modtf.models.architectures.sizes import check_size
from modtf.protocol import PRESETS, Protocol, preset
from modtf.studies import load_study
from modtf.studies.check import check_memory

TASK = Task("mha", num_rules=4)
CELL = Cell(TASK, 32, "modular", ((0, 0),), Protocol.quick(TASK))


BATCH, MATRICES, PARAMETERS = r"\(the largest batch", r"\(activation matrices", "[( ]parameters"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"protocol": CELL.protocol.replace(batch_size=10**10)}, BATCH),
        ({"protocol": CELL.protocol.replace(activation_batch_size=10**10)}, BATCH),
        ({"protocol": CELL.protocol.replace(evaluations=10**12)}, MATRICES),
        ({"protocol": CELL.protocol.replace(draws=10**12)}, MATRICES),
        ({"width": 10**6}, PARAMETERS),
        ({"members": tuple((i, 0) for i in range(10**5))}, PARAMETERS),
        ({"task": TASK.replace(num_rules=10**9)}, ""),
    ],
)
def test_what_is_too_large_is_named(monkeypatch, changes, named):
    monkeypatch.setattr("modtf.memory.memory_here", lambda: 10**10)
    with pytest.raises(ValueError, match=rf"modular with \d+ members cannot fit: .*{named} .*and there are"):
        check_size(replace(CELL, **changes))


@pytest.mark.parametrize("arch", with_free_rules())
@pytest.mark.parametrize("name", PRESETS)
def test_presets_need_less_than_a_small_machine_has(monkeypatch, arch, name):
    monkeypatch.setattr("modtf.memory.memory_here", lambda: 10**9)
    task = Task(arch, num_rules=8)
    check_size(Cell(task, 32, "modular", tuple((i, 0) for i in range(25)), preset(name, task).protocol))


def test_a_study_names_its_cells_that_do_not_fit(monkeypatch):
    monkeypatch.setattr("modtf.memory.memory_here", lambda: 10**9)
    cells = load_study("paper").cells
    with pytest.raises(ValueError, match=r"^\d+ of 800 cells cannot run:\n  \S+_e512_") as caught:
        check_memory(cells)
    assert str(caught.value).count("cannot fit") == 5


def test_public_functions_refuse_before_they_work():
    with pytest.raises(ValueError, match=r"batch_size=10000000000 .*cannot fit"):
        modtf.stream(TASK, batch_size=10**10)
    with pytest.raises(ValueError, match=r"10000000000 tokens cannot fit"):
        modtf.stream(TASK, seq_len=10**10)
    with pytest.raises(ValueError, match=r"width=1000000 with 1 members cannot fit"):
        modtf.build(TASK, width=10**6)
    with pytest.raises(ValueError, match="cannot fit"):
        modtf.run_cell(replace(CELL, width=10**6), "nowhere")
