"""Tasks, protocols, cells and populations refuse meaningless values by name."""

import inspect
import json
from typing import Any

import pytest
from hostile import anything, few, survives
from hypothesis import given
from hypothesis import strategies as st

from modtf import Cell, Evaluation, Population, Protocol, Task, Training
from modtf.families import FAMILIES
from modtf.studies import Grid

OPTIONS = sorted({option.name for family in FAMILIES.values() for option in family.options})
TASK_NAMES = [name for name in inspect.signature(Task).parameters if name != "options"]
CELL: dict[str, Any] = {"task": Task(), "width": 8, "variant": "modular", "members": ((0, 0),)}


@pytest.mark.parametrize("name", [*TASK_NAMES, *OPTIONS, "nonsense"])
@few
@given(value=anything, arch=st.sampled_from(list(FAMILIES)))
def test_task(name, value, arch):
    task = survives(lambda: Task(**{"arch": arch, name: value}), name)
    if task is not None:
        assert Task(**json.loads(json.dumps(task.to_dict()))) == task
        assert task.name
        assert hash(task) == hash(task.replace())


#: name -> the function that takes the values, and the class that has the fields
TAKES: dict[str, Any] = {
    "training": (lambda **given: Training(**{"steps": 10, **given}), Training),
    "evaluation": (lambda **given: Evaluation(**given).smaller(10), Evaluation),
    "replace": (Protocol.published(Task()).replace, Training),
}


@pytest.mark.parametrize(
    ("made", "name"), [(made, n) for made, (_, of) in TAKES.items() for n in [*of.__dataclass_fields__, "no"]]
)
@few
@given(value=anything)
def test_protocol(made, name, value):
    survives(lambda: TAKES[made][0](**{name: value}), name)


@pytest.mark.parametrize("name", list(Cell.__dataclass_fields__))
@few
@given(value=anything)
def test_cell(name, value):
    cell = survives(lambda: Cell(**{**CELL, name: value}), name)
    if cell is not None:
        assert Cell.from_dict(json.loads(json.dumps(cell.to_dict()))).hash == cell.hash
        assert cell.population.task.arch == "mlp"
        assert "/" not in cell.folder
        assert "\x00" not in cell.folder


@few
@given(task=anything | st.just(Task()) | st.lists(st.just(Task())), seed=anything)
def test_population(task, seed):
    population = survives(lambda: Population.of(task, seed))
    assert population is None or len(population.seeds) == len(population.tasks) >= 1


@few
@given(point=st.dictionaries(st.sampled_from([*TASK_NAMES, *OPTIONS, "width", "variant", "architecture",
       "preset", "tasks", "seeds", "members", "protocol", "training.steps", "evaluation.batches",
       "router.modules", "model.cell", "."]), anything, max_size=3))  # fmt: skip
def test_point_of_a_grid(point):
    survives(lambda: Grid([point]).cells())


@few
@given(data=st.data())
def test_a_cells_config(data):
    """Read back from a file that somebody changed."""
    config = json.loads(json.dumps(Cell(**CELL).to_dict()))
    part = data.draw(st.sampled_from(["cell", "training", "evaluation"]))
    name = data.draw(st.sampled_from(sorted(config[part])))
    if data.draw(st.booleans()):
        del config[part][name]
    else:
        config[part][name] = data.draw(anything)
    survives(lambda: Cell.from_dict(config))
