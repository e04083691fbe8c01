"""The tuned values of each variant: options that routers declare, and those a user names."""

import keras
import pytest
from cheap import search_of
from registering import forgotten

import modtf
from modtf.base.space import parse_axis, parse_named
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS
from modtf.models.routers.base import Router
from modtf.tasks.cell import Cell
from modtf.tasks.task import Task
from modtf.tuning.axes import LEARNING_RATES, axes_given, space_of
from modtf.tuning.axes import search_of as make_search


def base(variant="modular", **point):
    return search_of("1", variant=variant, **point).base


@pytest.fixture
def declares():
    """A router of a user's that says what can be tuned of it."""

    class Declares(Router):
        tunable = ("sharpness=0.5:8.0:log", "shape=1,2,3")

        def __init__(self, setup, *, sharpness=1.0, shape=1):
            super().__init__(setup)
            if shape > setup.num_rules:
                raise ValueError(f"shape={shape} is too much")
            self.sharpness = sharpness

        def call(self, rule=None, rule_features=None, scores=None):
            return keras.ops.softmax(rule * self.sharpness, axis=1)

    with forgotten(ROUTERS):
        modtf.register_router("declares")(Declares)
        yield "declares"


def test_the_learning_rate_and_what_the_router_declares(declares):
    assert space_of(base(), {}) == {"learning_rate": LEARNING_RATES}
    space = space_of(base(declares), {})
    assert {path: str(axis) for path, axis in space.items()} == {
        "learning_rate": "1e-05:0.01:log",
        "router.sharpness": "0.5:8.0:log",
        "router.shape": "1,2",  # the router refuses 3 for two rules
    }


@pytest.mark.parametrize(
    ("balance", "tuned"), [("none", []), ("auxiliary", ["strength"]), ("bias", ["rate"])]
)
def test_only_options_with_a_meaning_are_tuned(balance, tuned):
    declared = dict(map(parse_named, ROUTERS["balanced"].tunable))
    cell = base("balanced", num_rules=4, width=16, **{"router.k": 1, "router.balance": balance})
    space = space_of(cell, {}, fix_learning_rate=True)
    assert {path: str(axis) for path, axis in space.items()} == {
        f"router.{option}": str(declared[option]) for option in tuned
    }


@pytest.mark.parametrize("name", [n for n in ROUTERS if ROUTERS[n].tunable and n != "balanced"])
def test_what_routers_declare_they_accept(name):
    declared = {f"router.{option}": str(axis) for option, axis in map(parse_named, ROUTERS[name].tunable)}
    space = space_of(base(name, num_rules=8, width=32), {}, fix_learning_rate=True)
    assert {path: str(axis) for path, axis in space.items()} == declared


def test_what_is_set_is_not_tuned_and_what_is_given_counts(declares):
    fixed = base(declares, **{"router.shape": 2})
    given = axes_given(["learning_rate=1e-4,1e-3", "router.sharpness=1.0,2.0"], [fixed])
    found = {path: str(axis) for path, axis in space_of(fixed, given).items()}
    assert found == {"learning_rate": "0.0001,0.001", "router.sharpness": "1.0,2.0"}
    assert list(space_of(base(), given)) == ["learning_rate"], "it does not know the option"
    with pytest.raises(ValueError, match=r"shape=3 is too much"):
        space_of(base(declares), axes_given(["router.shape=1,3"], [base(declares)]))


def test_models_of_users_have_the_learning_rate_and_their_own_options():
    with forgotten(MODELS):
        modtf.register_model("mine")(lambda task, width, seed, experts=6: keras.Model())
        mine = base("mine")
        given = axes_given(["model.experts=2,4"], [mine])
        assert {path: str(axis) for path, axis in space_of(mine, {}).items()} == {
            "learning_rate": "1e-05:0.01:log"
        }
        with pytest.raises(ValueError, match=r"--space model\.layers is not known.*: experts"):
            axes_given(["model.layers=1,2"], [mine])
    assert {path: str(axis) for path, axis in given.items()} == {"model.experts": "2,4"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("learning_rate", "--space learning_rate: .*expected NAME=VALUES"),
        ("learning_rate=2:1", "expected a first number below"),
        ("learning_rate=0.1,2", "a learning rate is not valid; expected numbers above 0, at most 1"),
        ("learning_rate=high,low", "a learning rate is not valid; expected numbers above 0, at most 1"),
        ("temperature=1,2", "'temperature' cannot be tuned; expected learning_rate, router.NAME, model"),
        ("training.steps=1,2", "'training.steps' cannot be tuned"),
    ],
)
def test_spaces_that_mean_nothing(text, words):
    with pytest.raises(ValueError, match=words):
        axes_given([text], [])
    with pytest.raises(ValueError, match="is given twice"):
        axes_given(["learning_rate=0.1,0.2"] * 2, [])


def test_options_that_nobody_knows_or_that_are_set():
    cells = [base(), base("top_k")]
    assert len(axes_given(["router.k=1,2", "learning_rate=0.1,0.2"], cells)) == 2
    words = r"router\.colour is not known\. The options of modular and top_k: modules"
    with pytest.raises(ValueError, match=words):
        axes_given(["router.colour=1,2"], cells)
    with pytest.raises(ValueError, match=r"--space router\.k and --set router\.k cannot both"):
        axes_given(["router.k=1,2"], [base("top_k", **{"router.k": 2})])


def test_what_a_strategy_needs():
    space = {"learning_rate": parse_axis("1e-4:1e-2:log")}
    assert make_search(base(), space, "grid", 3, 1).space["learning_rate"].ends == (1e-4, 1e-3, 1e-2)
    assert make_search(base(), space, "random", 3, 1).space == space
    with pytest.raises(ValueError, match="'modular' has nothing to tune"):
        make_search(base(), {}, "grid", 3, 1)
    few = {"learning_rate": parse_axis("0.1,0.01")}
    with pytest.raises(ValueError, match="draws 17 settings, but the space of 'modular' has only 2"):
        make_search(base(), few, "hyperband", 3, 1)
    with pytest.raises(ValueError, match="needs at least 9 training steps"):
        make_search(base(**{"training.steps": 8}), space, "hyperband", 3, 1)


def test_a_router_that_declares_what_it_does_not_have():
    class Wrong(Router):
        tunable = ("strength=0.1:1",)

        def call(self, rule=None, rule_features=None, scores=None):
            return rule

    with pytest.raises(ValueError, match=r"'strength' is not an option of it; its options: modules"):
        modtf.register_router("wrong")(Wrong)
    Wrong.tunable = ("modules=2:1",)
    with pytest.raises(ValueError, match=r"'wrong' has tunable=.*expected a first number below"):
        modtf.register_router("wrong")(Wrong)


def test_the_published_grid_of_the_corruptions():
    """Each method has its own rate; lambda goes to the methods that have one."""
    cells = [
        Cell(Task("corruptions"), 4, variant, ((0, 0),)) for variant in ("erm", "contrastive", "modular")
    ]
    given = axes_given(["learning_rate=0.001,0.01,0.1,1", "trainer.strength=0.01,0.1,1,10"], cells)
    searches = [make_search(cell, space_of(cell, given), "grid", 5, 1) for cell in cells]
    assert [len(search.list_settings(None)) for search in searches] == [4, 16, 16]
    last = searches[1].cell_of(searches[1].list_settings(None)[-1])
    assert (last.protocol.training.learning_rate, last.trainer) == (1, {"strength": 10})
    with pytest.raises(ValueError, match=r"^strength=-1 is not valid"):
        space_of(cells[1], axes_given(["trainer.strength=-1,1"], cells))
