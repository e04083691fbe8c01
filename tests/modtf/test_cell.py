"""A cell's name, hash and members; the presets."""

import json
from dataclasses import fields, replace

import pytest

from modtf.cell import Cell, Evaluation, Training
from modtf.models.sizes import check_width
from modtf.presets import PRESETS
from modtf.task import ARCHITECTURES, Task

CELL = Cell(Task(num_rules=8), 32, "modular", ((0, 0), (1, 0), (1, 1)))


def test_members():
    assert [task.data_seed for task in CELL.tasks] == [0, 1, 1]
    assert CELL.seeds == [0, 0, 1]
    assert all(task == replace(CELL.task, data_seed=task.data_seed) for task in CELL.tasks)


def test_label_and_folder():
    assert CELL.label == "mlp_regression_r8_e32_modular"
    assert CELL.folder == f"{CELL.label}-{CELL.hash}"
    assert (
        Cell(Task("mha", search="v2"), 8, "monolithic", ((0, 0),)).label
        == "mha_v2_regression_r2_e8_monolithic"
    )


def test_the_hash_is_pinned():
    """Results on disk are found by it: it must survive new versions, machines and Pythons."""
    assert CELL.hash == "4a9f3bd0"
    assert len(CELL.hash) == 8


def test_the_hash_depends_on_the_science_alone():
    assert (
        CELL.hash == replace(CELL, task=replace(CELL.task, data_seed=4)).hash
    )  # members have the data seeds
    others = [
        replace(CELL, width=64),
        replace(CELL, variant="monolithic"),
        replace(CELL, members=((0, 0),)),
        replace(CELL, task=Task(num_rules=4)),
        replace(CELL, task=Task(num_rules=8, setting="classification")),
        replace(CELL, training=replace(CELL.training, steps=7)),
        replace(CELL, training=replace(CELL.training, learning_rate=1e-3)),
        replace(CELL, evaluation=replace(CELL.evaluation, tokens=7)),
    ]
    assert len({cell.hash for cell in [CELL, *others]}) == len(others) + 1


def test_the_dictionary_is_json_and_complete():
    plain = CELL.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert set(plain["training"]) == {field.name for field in fields(Training)}
    assert set(plain["evaluation"]) == {field.name for field in fields(Evaluation)}
    assert plain["cell"]["members"] == [[0, 0], [1, 0], [1, 1]]
    assert "data_seed" not in plain["cell"]


def test_a_smaller_evaluation():
    smaller = Evaluation().smaller(10)
    assert (smaller.batches, smaller.tokens, smaller.draws, smaller.tokens_per_draw) == (
        10,
        100_000,
        10,
        2_560,
    )
    assert smaller.scales == (1.0,)
    assert smaller.lengths == ()
    assert Evaluation(batches=1).smaller(10).batches == 1


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_presets(name, arch):
    preset = PRESETS[name](arch)
    check_width(arch, preset.width, preset.num_rules)
    Task(arch=arch, num_rules=preset.num_rules)
    assert preset.training.steps % preset.training.evaluations == 0
    assert preset.training.clipnorm == (1.0 if arch == "rnn" else None)
    assert preset.tasks * preset.seeds >= 2  # so that there is an interval to show


@pytest.mark.parametrize(("arch", "steps"), [("mlp", 100_000), ("mha", 500_000), ("rnn", 500_000)])
def test_the_paper_preset_is_the_published_protocol(arch, steps):
    preset = PRESETS["paper"](arch)
    training, evaluation = preset.training, preset.evaluation
    assert (training.steps, training.learning_rate, training.batch_size) == (steps, 1e-4, 256)
    assert (preset.tasks, preset.seeds) == (5, 5)
    assert (evaluation.batches, evaluation.batch_size, evaluation.tokens) == (100, 256, 1_000_000)
    assert (evaluation.draws, evaluation.tokens_per_draw) == (100, 10_000)
    assert evaluation.lengths == (3, 5, 10, 20, 30)
    assert evaluation.scales == (1.0, 2.0)
