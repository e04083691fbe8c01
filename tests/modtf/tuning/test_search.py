"""The definition of a search, and the cells of its trials."""

from pathlib import Path

import keras
import numpy as np
import pandas as pd
import pytest
from cheap import search_of
from registering import forgotten

import modtf
from modtf.base.space import parse_axis, parse_named
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS
from modtf.models.routers.base import Router
from modtf.results.schema import HISTORY_COLUMNS
from modtf.tasks.cell import Cell
from modtf.tasks.task import Task
from modtf.tuning import Search, load_trials
from modtf.tuning.search import (
    DEFINITION,
    LEARNING_RATES,
    axes_given,
    begin_lists,
    find_searches,
    in_words,
    space_of,
    with_values,
)
from modtf.tuning.search import search_of as make_search
from modtf.tuning.trials import validation


def test_a_trial_is_a_cell_with_other_values():
    search = search_of("1e-5:1e-2:log", **{"training.batch_size": 7})
    space = {**search.space, "router.k": parse_axis("2,4"), "model.hidden": parse_axis("8:16")}
    search = Search(search.base, space, "random")
    cell = search.cell_of({"learning_rate": 0.00012345678, "router.k": 4, "model.hidden": 9})
    assert cell.protocol == search.base.protocol.replace(learning_rate=0.0001235)
    assert (cell.router, cell.model) == ({"k": 4}, {"hidden": 9})
    values = search.values_of({"learning_rate": 1e-5, "router.k": 2, "model.hidden": 8})
    assert in_words(values) == "learning_rate=1e-05, k=2, hidden=8"
    kept = with_values(cell, {"router.j": 1})
    assert kept.router == {"k": 4, "j": 1}


def test_short_trials_of_hyperband_evaluate_at_even_steps():
    base = search_of("0.1,0.2", **{"training.steps": 1000, "training.evaluations": 10})
    values = {"learning_rate": 0.1}
    steps = [base.cell_of({**values, "tuner/epochs": n}).protocol.training.steps for n in (1, 3, 9)]
    assert steps == [100, 300, 1000]
    tiny = search_of("0.1,0.2", **{"training.steps": 9, "training.evaluations": 10})
    assert tiny.cell_of({**values, "tuner/epochs": 1}).protocol.training.steps == 1


def test_a_search_is_read_as_it_was_written(tmp_path):
    search = search_of("1e-5:1e-2:log", "random")
    search.write(tmp_path, [])
    assert find_searches(tmp_path) == [search]
    others = [search_of("1e-5:1e-1:log", "random"), search_of("1e-5:1e-2:log", "bayesian")]
    others += [search_of("1e-5:1e-2:log", "random", width=8), Search(search.base, search.space, "random", 2)]
    assert len({search.name, *(other.name for other in others)}) == 5


def test_folders_without_a_search(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no search.*Give the folder that was --out"):
        find_searches(tmp_path / "none")
    search_of("0.1,0.2").write(tmp_path, [])
    search_of("0.1,0.2").folder(tmp_path).joinpath(DEFINITION).write_text("{}")
    with pytest.raises(ValueError, match=r"search\.json does not describe a search of this version"):
        find_searches(tmp_path)


@pytest.mark.parametrize(
    ("start", "values"), [(0, (90, 80, 70, 2, 4)), (100, (90, 80, 70, 3))], ids=["", "after a warm start"]
)
def test_validation_is_the_end_of_training_and_never_the_test(tmp_path, start, values):
    """The mean over the evaluations of "tail", or with a schedule the last one, in the cell's order."""
    settings = {"training.steps": 40, "training.schedule": None}
    cell = search_of("0.1", members=((1, 0), (0, 0)), **settings).base
    rows = [
        (step, d, 0, measure, condition, "", value + d + (measure == "error") + (condition == "rare"))
        for measure in ("loss", "error")
        for condition in ("iid", "rare")  # rows of rare rules do not count
        for d in (0, 1)
        for step, value in enumerate(values, start)
    ]
    pd.DataFrame(rows, columns=list(HISTORY_COLUMNS)).to_csv(tmp_path / "history.csv", index=False)
    (tmp_path / "results.csv").write_text("what the test said\n")
    assert validation(cell, tmp_path).tolist() == [4.0, 3.0]
    falling = search_of("0.1", members=((1, 0), (0, 0)), **{"training.schedule": "cosine"}).base
    assert validation(falling, tmp_path).tolist() == [values[-1] + 1.0, values[-1]]
    other = search_of("0.1", members=((2, 0),)).base
    with pytest.raises(ValueError, match="does not belong to its cell"):
        validation(other, tmp_path)
    lost = [*rows, (2, 1, 0, "diverged", "iid", "", 1.0)]  # in a stage that had no evaluations
    pd.DataFrame(lost, columns=list(HISTORY_COLUMNS)).to_csv(tmp_path / "history.csv", index=False)
    np.testing.assert_equal(validation(cell, tmp_path), [np.nan, 3.0])


def test_trials_as_a_table(tune):
    search = search_of("0.01,0.001")
    tune(search)
    frame = load_trials(tune.out)
    assert len(frame) == 4
    assert frame.groupby("learning_rate")["value"].mean().round(6).to_dict() == {0.001: 0.1, 0.01: 1.1}
    assert set(frame["variant"]) == {"modular"}
    assert frame[["data_seed", "seed"]].drop_duplicates().to_numpy().tolist() == [[0, 0], [1, 0]]
    for folder in frame["folder"]:
        assert Path(folder, "history.csv").exists()


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
    for few, number in (("0.1,0.01", 2), ("4:16", 13)):
        with pytest.raises(ValueError, match=f"draws 17 settings, but .* 'modular' has only {number}"):
            make_search(base(), {"any": parse_axis(few)}, "hyperband", 3, 1)
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


def test_a_search_whose_label_is_a_path_is_found(tmp_path):
    search = search_of("0.1,0.2", variant="clamped", **{"router.of": "runs/x/cell"})
    search.write(tmp_path, [])
    assert find_searches(tmp_path) == [search]


def test_trials_that_are_added_to_a_search_move_no_others(tmp_path):
    searches = [search_of("0.01,0.02,0.04", width=width) for width in (8, 16)]
    before = begin_lists(searches, tmp_path, None)
    half = searches[0].half_steps[0.02]
    searches[0].write(tmp_path, [*searches[0].settings(tmp_path), {"learning_rate": half}])
    after = begin_lists(searches, tmp_path, None)
    assert after[:6] == before
    assert [cell.protocol.training.learning_rate for cell in after[6:]] == [half]
