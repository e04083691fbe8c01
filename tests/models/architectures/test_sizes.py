"""Parameter counts equal the published ones; what cannot be built, or cannot fit in memory, is refused."""

from dataclasses import replace

import pytest

import modtf
from modtf import Cell, Task, build
from modtf.models.architectures.sizes import check_size, check_width, least_parameters
from modtf.studies import load_study
from modtf.studies.grid import check_memory
from modtf.tasks.cell import VARIANTS
from modtf.tasks.families import with_free_rules
from modtf.tasks.protocol import PRESETS, Protocol, preset

# (arch, search, R, e) -> parameters of monolithic, modular, modular_op, gt_modular, as published
PUBLISHED = {
    ("mlp", None, 2, 32): (35_361, 35_619, 35_555, 35_489),
    ("mlp", None, 8, 128): (560_001, 564_105, 564_617, 563_585),
    ("mlp", None, 32, 32): (36_321, 40_449, 41_345, 40_289),
    ("mha", "v1", 2, 32): (28_609, 29_827, 29_891, 29_729),
    ("mha", "v1", 8, 128): (413_089, 444_169, 443_945, 443_393),
    ("mha", "v1", 32, 32): (30_499, 33_377, 33_251, 33_089),
    ("mha", "v2", 2, 32): (28_737, 29_955, 30_019, 29_857),
    ("mha", "v2", 8, 128): (415_137, 446_217, 445_993, 445_441),
    ("mha", "v2", 32, 32): (32_547, 35_425, 35_299, 35_137),
    ("rnn", None, 2, 32): (101_761, 101_640, 100_548, 100_184),
    ("rnn", None, 8, 128): (1_599_745, 1_591_897, 1_584_025, 1_581_401),
    ("rnn", None, 32, 32): (102_721, 97_472, 94_592, 93_632),
}


@pytest.mark.parametrize(("cell", "expected"), PUBLISHED.items(), ids=lambda x: "_".join(map(str, x)))
def test_published_parameter_counts(cell, expected):
    arch, search, num_rules, width = cell
    task = Task(arch=arch, num_rules=num_rules, **({"search": search} if search else {}))
    variants = ("monolithic", "modular", "modular_op", "gt_modular")
    assert tuple(build(task, variant, width).num_parameters for variant in variants) == expected
    assert max(expected) / 9 < least_parameters(arch, width) < min(expected)


def test_the_state_target_has_a_wider_decoder():
    """The released rnn regression predicts the state: 32 outputs in place of one, each h + 1 weights."""
    for variant in VARIANTS:
        tasks = (Task("rnn", num_rules=8, target=target) for target in ("output", "state"))
        plain, state = (build(task, variant, 32) for task in tasks)
        assert state.num_parameters - plain.num_parameters == 31 * (plain.state_width + 1)


def test_the_monolithic_cell_starts_as_that_of_pytorch():
    model = build(Task("rnn"), "monolithic", 16)
    for weight in (model.from_input.kernel, model.from_input.bias, model.shared_state.from_state.kernel):
        largest = abs(weight.numpy()).max()
        assert 0.9 * (4 * 16) ** -0.5 < largest <= (4 * 16) ** -0.5


def test_widths_are_solved_for_one_budget(arch):
    """With twice as many modules as rules, or a quarter; with simple cells as with LSTM cells."""
    task = Task(arch, num_rules=8)
    usual = build(task, "modular", 64).num_parameters
    for modules in (2, 4, 12, 16):
        other = build(task, "modular", 64, router={"modules": modules})
        assert other.num_modules == modules
        assert abs(other.num_parameters / usual - 1) < 0.06
    if arch == "rnn":
        counts = [build(task, variant, 64, cell="simple").num_parameters for variant in VARIANTS]
        assert max(counts) < 1.03 * min(counts)


@pytest.mark.parametrize(
    ("arch", "width", "num_rules"), [("mlp", 2, 9), ("mha", 2, 8), ("rnn", 1, 32)], ids=str
)
def test_a_width_too_small_is_refused(arch, width, num_rules):
    message = f"width={width} is too small for .* modules: .* Choose a larger width or fewer rules"
    with pytest.raises(ValueError, match=message):
        check_width(arch, width, num_rules)
    with pytest.raises(ValueError, match=message):
        check_width(arch, width, 2, num_modules=num_rules)
    with pytest.raises(ValueError, match=message):
        build(Task(arch=arch, num_rules=num_rules), "modular", width)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Task(), "cell='gru' is not an option of the architecture ModularMLP; its options: none"),
        (Task("rnn"), "cell='gru' is not known; expected one of lstm, simple"),
    ],
)
def test_options_of_an_architecture_are_checked(task, message):
    with pytest.raises(ValueError, match=message):
        build(task, cell="gru")


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
    monkeypatch.setattr("modtf.base.memory.memory_here", lambda: 10**10)
    with pytest.raises(ValueError, match=rf"modular with \d+ members cannot fit: .*{named} .*but only"):
        check_size(replace(CELL, **changes))


@pytest.mark.parametrize("arch", with_free_rules())
@pytest.mark.parametrize("name", PRESETS)
def test_presets_need_less_than_a_small_machine_has(monkeypatch, arch, name):
    monkeypatch.setattr("modtf.base.memory.memory_here", lambda: 10**9)
    task = Task(arch, num_rules=8)
    check_size(Cell(task, 32, "modular", tuple((i, 0) for i in range(25)), preset(name, task).protocol))


def test_a_study_names_its_cells_that_do_not_fit(monkeypatch):
    monkeypatch.setattr("modtf.base.memory.memory_here", lambda: 10**9)
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
