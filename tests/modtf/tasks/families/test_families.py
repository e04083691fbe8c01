"""Descriptions of families are complete; incomplete ones are refused."""

from typing import Any

import pytest
from registering import forgotten

from modtf.base.registry import resolve
from modtf.studies.grid import CELL_FIELDS
from modtf.tasks.families import (
    FAMILIES,
    IID,
    Condition,
    Family,
    Option,
    published_conditions,
    register_family,
    with_free_rules,
)
from modtf.tasks.families.checks import TAKEN
from modtf.tasks.family import Variant
from modtf.tasks.task import FIELDS, Task

RESERVED = ("arch", "setting", "num_rules", "data_seed", "seed")


@pytest.mark.parametrize("arch", FAMILIES)
def test_every_family_is_whole(arch):
    family = FAMILIES[arch]
    assert isinstance(family, Family)
    assert (family.name, Task(arch).family) == (arch, family)
    assert family.title
    assert {family.performance_measure(setting) for setting in family.settings} <= {"loss", "error"}
    assert resolve(family.data).__name__  # what the lazy reference stands for
    assert Task(arch).token_width >= 1
    assert all(option.description and option.name not in RESERVED for option in family.options)


@pytest.mark.parametrize("arch", FAMILIES)
def test_every_option_and_number_of_rules_is_checked(arch):
    for option in FAMILIES[arch].options:
        wrong: Any = {option.name: "wrong"}
        with pytest.raises(ValueError, match=f"{option.name}='wrong' is not (known|valid); expected"):
            Task(arch, **wrong)
    if arch not in with_free_rules():
        with pytest.raises(ValueError, match=f"num_rules=3 is not valid; expected .* for arch='{arch}'"):
            Task(arch, num_rules=3)


@pytest.mark.parametrize("arch", FAMILIES)
def test_conditions_have_unique_names_and_the_first_is_that_of_training(arch):
    family = FAMILIES[arch]
    assert family.condition_names[0] == IID
    assert len(set(family.condition_names)) == len(family.conditions)
    assert len({condition.label for condition in family.conditions}) == len(family.conditions)
    streams = [repr(sorted(condition.stream_options().items())) for condition in family.conditions]
    assert len(set(streams)) == len(streams)  # no two are the same data
    assert streams[0] == "[]"
    more = family.more_conditions
    assert len({c.label for c in (*family.conditions, *more)}) == len(family.conditions) + len(more)
    assert not {c.name for c in more} & {*family.condition_names, *family.groups}
    assert {c.of_option for c in more} - {None} <= {option.name for option in family.options}
    headed = [c for c in family.conditions if family.headline in (c.name, c.group)]
    assert headed
    assert not any(condition.in_distribution for condition in headed)
    names = {c.of(what) for c in family.conditions for what in ("loss", "error", "test")}
    assert len(names) == 3 * len(family.conditions)
    with pytest.raises(ValueError, match=f"condition='scale3' is not known; expected one of {IID}, "):
        family.condition("scale3")


def test_the_published_conditions():
    lengths = ["iid", "scale2", *(f"len{n}{scale}" for n in (3, 5, 20, 30) for scale in ("", "_scale2"))]
    names = [list(FAMILIES[arch].condition_names) for arch in ("mlp", "mha", "rnn")]
    assert names == [["iid", "scale2"], lengths, lengths]
    of = {c.name: c for c in FAMILIES["mha"].conditions}
    assert [of[name].of("loss") for name in ("iid", "len30_scale2")] == ["loss", "loss_len30_scale2"]
    assert (of["iid"].in_distribution, of["len3"].in_distribution) == (True, False)
    assert of["len30_scale2"].stream_options() == {"scale": 2.0, "seq_len": 30}
    shown = Condition("shown", "as data", options={"order": [1]}, group="all")
    assert shown.stream_options() == {"options": {"order": [1]}}


def test_an_option():
    choice = Option("metal", "gold", "", choices=("gold", "lead"))
    assert choice.check("lead") == "lead"
    assert choice.show("lead") == "lead"
    with pytest.raises(ValueError, match="metal='tin' is not known; expected one of gold, lead"):
        choice.check("tin")
    number = Option("noise", 0.0, "", high=1.0)
    assert number.check(0.25) == 0.25
    assert number.show(0.25) == "noise0.25"
    with pytest.raises(ValueError, match="noise=2 is not valid"):
        number.check(2)


def test_the_default_of_an_option_has_the_type_of_its_other_values():
    """Otherwise a cell and the same cell read from its config have different hashes."""
    default = Option("examples", 210_000, "", low=250, high=1e9).default
    assert (default, type(default)) == (210_000, float)
    assert type(Option("depth", 2.0, "", low=1, integer=True).default) is int
    with pytest.raises(ValueError, match="half=0 is not valid; expected an integer of at least 1"):
        Option("half", 1, "", low=0.5, high=3.5, integer=True).check(0)
    for task in map(Task, FAMILIES):
        assert repr(Task(**task.to_dict())) == repr(task)


class Whole(Family):
    title = "Whole"
    data = "no_such:Data"
    architecture = "mlp"
    conditions = published_conditions(10, (10, 20))
    headline = "len20"

    def token_width(self, task):
        return 1

    def published(self, task):
        raise NotImplementedError

    quick = published


@pytest.fixture(autouse=True)
def forget():
    with forgotten(FAMILIES):
        yield


def test_a_family_is_registered_once():
    assert register_family("whole")(Whole) is Whole
    assert FAMILIES["whole"].name == "whole"
    assert register_family("whole")(Whole) is Whole  # again is nothing new


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"headline": "len30"}, "must begin with 'iid' and contain its headline 'len30'; received iid, "),
        ({"conditions": (Condition("scale2", "x 2", scale=2.0),)}, "must begin with 'iid'"),
        (
            {"token_width": Family.token_width},
            r"does not define token_width\(task\). Define what modtf.Family",
        ),
        ({"groups": ("long",)}, r"groups=\('long',\); expected the groups of its conditions in order, none"),
        (
            {"more_conditions": (Condition("far", "", while_training=True),)},
            "has 'far' in more_conditions, with a group or while_training, which apply to its conditions",
        ),
        ({"options": (Option("width", 1.0, ""),)}, "has an option 'width', which has another meaning"),
        ({"options": (Option("a", 1.0, ""), Option("a", 2.0, ""))}, "has two options 'a'"),
        (
            {"options": (Option("a", "x", "", ("x", "y")), Option("b", "z", "", ("y", "z")))},
            "has two options with the choice 'y'",  # a task's name would not say which
        ),
    ],
)
def test_a_family_that_is_not_whole(changes, message):
    with pytest.raises(ValueError, match=message):
        register_family("broken")(type("Broken", (Whole,), changes))
    assert "broken" not in FAMILIES


def test_names_that_have_another_meaning():
    attributes = {name for name in dir(Task) if not name.startswith("_")}
    assert attributes | {*FIELDS, *CELL_FIELDS} == TAKEN
    with pytest.raises(ValueError, match="'rare', under which results hold values"):
        Condition("rare", "seldom")
    with pytest.raises(ValueError, match="'gap', under which results hold values"):  # of "loss_gap"
        Condition("gap", "between")
    with pytest.raises(ValueError, match="cannot have the name 'random', which tables and figures give to"):
        Variant("random")
