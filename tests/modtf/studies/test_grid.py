"""Grids of settings, and the conversion of their points to cells."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modtf import Protocol, Task
from modtf.models.routers import ROUTERS
from modtf.studies import Grid, grid, together
from modtf.studies.grid import cell_of, options_known, shard_of
from modtf.tasks.families import FAMILIES

GRIDS = st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(), max_size=3), max_size=3)
OTHERS = st.dictionaries(st.sampled_from("xyz"), st.lists(st.integers(), max_size=3), max_size=3)


def points(some):
    return [dict(point) for point in some]


def test_the_last_axis_varies_fastest():
    found = [tuple(point.values()) for point in points(grid(a=[1, 2], b=[3, 4]))]
    assert found == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_lists_and_ranges_are_choices_and_everything_else_is_one_value():
    assert len(grid(a=[1, 2], b=range(3))) == 6
    assert points(grid(a="text", b=(1, 2), c=None)) == [{"a": "text", "b": (1, 2), "c": None}]
    assert points(grid(**{"router.modules": [4, 8]})) == [{"router.modules": 4}, {"router.modules": 8}]


def test_together():
    assert points(together(a=[1, 2], b=[3, 4])) == [{"a": 1, "b": 3}, {"a": 2, "b": 4}]
    with pytest.raises(ValueError, match=r"as many values each, received \{'a': 2, 'b': 1\}"):
        together(a=[1, 2], b=3)


@settings(deadline=None)
@given(GRIDS, OTHERS)
def test_a_product_is_the_grid_of_all_axes(a, b):
    assert points(grid(**a) * grid(**b)) == points(grid(**a, **b))


@settings(deadline=None)
@given(GRIDS, GRIDS, OTHERS)
def test_products_distribute_over_chains(a, b, c):
    left = (grid(**a) + grid(**b)) * grid(**c)
    right = grid(**a) * grid(**c) + grid(**b) * grid(**c)
    assert points(left) == points(right)


def test_where_keeps_the_order_and_nothing_is_a_grid():
    kept = grid(a=range(5)).where(lambda point: point["a"] % 2 == 0)
    assert points(kept) == [{"a": 0}, {"a": 2}, {"a": 4}]
    assert points(Grid([]) + grid(a=1)) == [{"a": 1}]
    assert points(Grid([]) * grid(a=1)) == []


def test_a_product_sets_nothing_twice():
    with pytest.raises(ValueError, match="set width"):
        grid(width=32, arch="mlp") * grid(width=64)
    with pytest.raises(ValueError, match="set arch"):  # wherever it stands
        (grid(width=32) + grid(arch="mlp")) * grid(arch="mha")


@pytest.mark.parametrize("count", [1, 2, 7, 30])
def test_shards_are_a_partition_of_even_sizes(count):
    shards = [shard_of(range(20), f"{i}/{count}") for i in range(count)]
    assert sorted(item for shard in shards for item in shard) == list(range(20))
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@pytest.mark.parametrize("text", ["", "1", "2/2", "-1/2", "a/b", "1/2/3"])
def test_what_is_no_shard(text):
    with pytest.raises(ValueError, match=f"--shard={text} is not valid; expected i/n"):
        shard_of("abc", text)


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
        ({"members": ()}, "members="),
        ({"members": ((7, 0),), "tasks": 3}, "so tasks cannot stand beside it"),
    ],
)
def test_errors_say_which_cell(setting, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")) as error:
        Grid([{**SMALL, **setting}]).cells()
    assert "in the cell arch='mlp'" in str(error.value)
