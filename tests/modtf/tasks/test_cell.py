"""A cell's name, hash, columns and members."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from modtf import Cell, Task
from modtf.tasks.families import FAMILIES
from modtf.tasks.protocol import LATER, Evaluation, Protocol, Training

CELL = Cell(Task(num_rules=8), 32, "modular", ((0, 0), (1, 0), (1, 1)))


def test_members():
    population = CELL.population
    assert [task.data_seed for task in population.tasks] == [0, 1, 1]
    assert population.seeds == (0, 0, 1)
    assert population.has_axis
    assert all(task == CELL.task.replace(data_seed=task.data_seed) for task in population.tasks)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"members": ()}, "at least one"),
        ({"members": ((0, 0), (0, 0))}, r"\(0, 0\)\) is not valid; expected .* each once"),
        ({"width": 0}, "width=0"),
        ({"router": {"k": 2}, "model": {"k": 3}}, "option 'k' is one of the router and of the architecture"),
    ],
)
def test_what_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(CELL, **changes)


@pytest.mark.parametrize("arch", FAMILIES)
def test_the_published_protocol_is_the_default(arch):
    cell = Cell(Task(arch), 32, "modular", ((0, 0),))
    assert cell.protocol == Protocol.published(cell.task)


def test_label_and_folder():
    assert CELL.label == "mlp_regression_r8_e32_modular"
    assert CELL.folder == f"{CELL.label}-{CELL.hash}"
    mha = Cell(Task("mha", search="v2"), 8, "even", ((0, 0),), router={"modules": 4}, architecture="plain")
    assert mha.label == "mha_v2_regression_r2_e8_even_plain_modules-4"


def test_columns():
    kind = {"arch": "mlp", "setting": "regression", "task_options": "", "num_rules": 8}
    assert CELL.columns == {**kind, "width": 32, "variant": "modular", "model_options": ""}
    rnn = Cell(Task("rnn", target="state"), 8, "modular", ((0, 0),), router={"modules": 4})
    rnn = replace(rnn, model={"cell": "simple"})
    assert rnn.columns["task_options"] == "target=state"
    assert rnn.columns["model_options"] == "modules=4,cell=simple"
    assert replace(CELL, trainer={"warm_up": 2}).columns["model_options"] == "trainer.warm_up=2"
    assert Cell(Task("mha"), 8, "modular", ((0, 0),)).columns["task_options"] == "search=v1"
    assert replace(CELL, architecture="mlp") == CELL, "the family's own is none"
    assert replace(CELL, architecture="mha").columns["model_options"] == "architecture=mha"


def test_lists_and_tuples_are_the_same_cell():
    cells = [replace(CELL, trainer={"sites": sites}) for sites in ([2, [0]], (2, (0,)))]
    cells.append(Cell.from_dict(json.loads(json.dumps(cells[0].to_dict()))))
    assert {cell.folder for cell in cells} == {cells[0].folder}
    assert {cell.columns["model_options"] for cell in cells} == {"trainer.sites=(2, (0,))"}


def test_the_hash_is_pinned():
    """Results on disk are found by it: it must survive new versions, machines and Pythons."""
    assert CELL.hash == "fec144a9"
    later = {*LATER, "trainer"} - {"tail"}  # which the published protocol gives
    assert not later & {*CELL.to_dict(), *CELL.to_dict()["training"]}


def test_the_hash_depends_on_the_science_alone():
    assert CELL.hash == replace(CELL, task=CELL.task.replace(data_seed=4)).hash  # members have the data seeds
    parts: list[dict[str, Any]] = [{name: {"modules": 4}} for name in ("router", "model", "trainer")]
    parts += [{"task": Task(num_rules=4)}, {"task": Task(num_rules=8, setting="classification")}]
    parts += [{"width": 64}, {"variant": "monolithic"}, {"members": ((0, 0),)}, {"architecture": "mha"}]
    others = [replace(CELL, **one) for one in parts]
    changes: list[dict[str, Any]] = [{"steps": 7}, {"learning_rate": 1e-3}, {"tokens": 7}]
    changes += [{"conditions": ("iid",)}, {"optimizer": "sgd"}, {"optimizer": "sgd", "momentum": 0.5}]
    changes += [{"schedule": "cosine"}, {"weight_decay": 1e-4}]
    others += [replace(CELL, protocol=CELL.protocol.replace(**change)) for change in changes]
    assert len({cell.hash for cell in [CELL, *others]}) == len(others) + 1


def test_the_dictionary_is_json_complete_and_the_cell_again():
    evaluation = Evaluation(conditions=("iid", "scale2"))
    options: dict[str, Any] = {"router": {"modules": 4}, "model": {"cell": "simple"}}
    options["trainer"] = {"warm_up": 2}
    cell = replace(CELL, protocol=Protocol(Training(steps=4), evaluation), **options)
    for one in (CELL, cell):
        plain = one.to_dict()
        assert json.loads(json.dumps(plain)) == plain
        assert {*plain["training"], *LATER} == {field.name for field in fields(Training)}
        assert set(plain["evaluation"]) == {field.name for field in fields(Evaluation)}
        assert plain["cell"]["members"] == [[0, 0], [1, 0], [1, 1]]
        assert "data_seed" not in plain["cell"]["task"]
        assert Cell.from_dict(plain) == one
