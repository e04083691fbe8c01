"""Points of a grid, and the cells that they become."""

import pytest

from modtf import Protocol, Task
from modtf.models.routers import ROUTERS
from modtf.studies import Grid
from modtf.studies.point import cell_of, options_known
from modtf.tasks.families import FAMILIES

SMALL = {"arch": "mlp", "num_rules": 4, "width": 32, "variant": "modular"}


def test_what_is_not_given_is_the_papers():
    cell = cell_of(SMALL)
    assert cell.protocol == Protocol.published(Task("mlp", num_rules=4))
    assert cell.members == tuple((d, s) for d in range(5) for s in range(5))
    assert cell_of({"arch": "mha"}).task == Task("mha", num_rules=8)


def test_every_setting():
    task = {"arch": "rnn", "setting": "regression", "target": "state", "num_rules": 4}
    model = {"width": 16, "variant": "modular", "router.modules": 6, "model.cell": "simple"}
    protocol = {"preset": "quick", "tasks": (3,), "seeds": 2, "training.steps": 7, "evaluation.draws": 9}
    cell = cell_of({**task, **model, **protocol})
    assert cell.task == Task("rnn", num_rules=4, target="state")
    assert cell.members == ((3, 0), (3, 1))
    assert (cell.router, cell.model) == ({"modules": 6}, {"cell": "simple"})
    quick = Protocol.quick(cell.task)
    assert cell.protocol == quick.replace(steps=7, draws=9)


@pytest.mark.parametrize("router", ROUTERS)
def test_every_router_may_be_given_a_start(router):
    assert options_known("trainer", FAMILIES["mlp"], router) == {"start": "none", "start_steps": 1000}
    assert cell_of({**SMALL, "variant": router, "trainer.start": "oracle"}).trainer == {"start": "oracle"}


def test_a_protocol_of_ones_own():
    own = Protocol.quick(Task("mlp"))
    assert cell_of({**SMALL, "protocol": own}).protocol == own
    assert cell_of({**SMALL, "protocol": Protocol.quick}).protocol == own
    assert cell_of({**SMALL, "members": ((1, 2),)}).members == ((1, 2),)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"rules": 2}, "setting='rules' is not known; expected one of arch, setting, num_rules"),
        ({"optimiser.name": 1}, "namespace of optimiser.name='optimiser'"),
        ({"training.step": 1}, "training field='step' is not known"),
        ({"search": "v2"}, "has no meaning for arch='mlp'"),
        ({"num_rules": 1}, "expected an integer of at least 2"),
        ({"preset": "large"}, "preset='large' is not known"),
        ({"protocol": 3}, "protocol=3 is not valid; expected a modtf.Protocol"),
        ({"tasks": 0}, "tasks=0 is not valid"),
        ({"seeds": (0, -1)}, "seeds=-1 is not valid"),
        ({"seeds": 10**30}, "expected an integer of at most 1000000000000"),
        ({"tasks": 10**12}, "cannot fit: .*Take fewer members"),
        ({"width": 0}, "width=0 is not valid"),
    ],
)
def test_errors_say_which_cell(setting, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")) as error:
        Grid([{**SMALL, **setting}]).cells()
    assert "in the cell arch='mlp'" in str(error.value)
