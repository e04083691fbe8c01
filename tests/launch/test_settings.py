"""--set and the families' own flags: where they arrive, and what they refuse."""

import pytest
from absl import flags

from modtf.families import FAMILIES, register_family
from modtf.launch.cells import cells_of_flags
from modtf.launch.run import define_flags
from modtf.launch.settings import ALL, define_settings, settings_given
from modtf.models.routers import ROUTERS, register_router
from modtf.models.routers.base import Router
from modtf.space import parse_value
from modtf.variants import Variant


def given(*arguments):
    values = flags.FlagValues()
    define_flags(values)
    values(["run.py", *arguments])
    return values


def cells(*arguments):
    return {cell.variant: cell for cell in cells_of_flags(given(*arguments))}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("0.5", 0.5),
        ("None", None),
        ("simple", "simple"),
        ("(1, 2)", (1, 2)),
        ("v2", "v2"),
        ("", ""),
    ],
)
def test_values_are_literals_or_text(text, value):
    assert parse_value(text) == value


def test_every_option_of_every_family_is_a_flag():
    names = [option.name for family in FAMILIES.values() for option in family.options]
    assert names
    assert set(names) <= set(given())


def test_an_option_named_as_a_flag_is_set_by_its_namespace():
    values = flags.FlagValues()
    flags.DEFINE_string("search", "everywhere", "The command's own.", flag_values=values)
    define_settings(values)
    values(["command", "--search=here", "--set", "task.search=v2"])
    assert values.search == "here"
    assert settings_given(values)["task"] == {"search": ["v2"]}


@pytest.mark.parametrize(
    "arguments", [["--search=v2"], ["--set", "task.search=v2"], ["--set=task.search=v2"]]
)
def test_options_of_the_task(arguments):
    task = cells("--arch=mha", *arguments)["modular"].task
    assert task.search == "v2"


def test_options_of_the_architecture():
    assert cells("--arch=rnn", "--set", "model.cell=simple")["modular"].model == {"cell": "simple"}


def test_another_architecture_is_part_of_the_cell():
    chosen = cells("--arch=rnn", "--architecture=mha")["modular"]
    assert chosen.architecture == "mha"
    assert cells("--arch=rnn", "--architecture=rnn")["modular"] == cells("--arch=rnn")["modular"]


def test_options_of_protocols():
    protocol = cells(
        "--set=training.clipnorm=0.5", "--set=training.evaluations=3", "--set=evaluation.batch_size=7"
    )["modular"].protocol
    assert (protocol.training.clipnorm, protocol.training.evaluations) == (0.5, 3)
    assert (protocol.training.batch_size, protocol.evaluation.batch_size) == (256, 7)
    assert cells("--arch=rnn", "--set=training.clipnorm=None")["modular"].protocol.training.clipnorm is None
    training = cells("--set=training.learning_rate=0.5", "--set=training.precision=tf32")[
        "modular"
    ].protocol.training
    assert (training.learning_rate, training.precision) == (0.5, "tf32")


def test_conditions_by_name():
    evaluation = cells("--arch=rnn", "--set=evaluation.conditions=len30,scale2")[
        "modular"
    ].protocol.evaluation
    assert evaluation.conditions == ("len30", "scale2")


@pytest.fixture
def tempered():
    """A router with an option of its own."""

    @register_router("tempered")
    class Tempered(Router):
        def __init__(self, setup, *, modules=None, temperature=1.0):
            super().__init__(setup, modules=modules)
            self.temperature = temperature

        def call(self, rule=None, rule_features=None, scores=None):
            return rule

    yield
    del ROUTERS._objects["tempered"], ROUTERS._origins["tempered"]


@pytest.mark.usefixtures("tempered")
def test_a_routers_option_goes_to_the_variants_that_know_it():
    found = cells("--set=router.temperature=2", "--set=router.modules=16")
    assert found["tempered"].router == {"temperature": 2, "modules": 16}
    assert found["modular"].router == {"modules": 16}
    assert found["gt_modular"].router == {}
    assert found["gt_modular"].hash == cells()["gt_modular"].hash
    assert found["modular"].hash != cells()["modular"].hash


@pytest.mark.usefixtures("tempered")
def test_a_registered_router_is_a_variant():
    assert list(cells())[-1] == "tempered"
    with pytest.raises(ValueError, match=r"--set router\.temperature is not known.*of modular: modules\."):
        cells("--variant=modular", "--set=router.temperature=2")


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("temperature=2", rf"expected NAMESPACE.NAME=VALUE with a namespace of {', '.join(ALL)}"),
        ("router.temperature", "expected NAMESPACE.NAME=VALUE"),
        ("routers.temperature=2", "expected NAMESPACE.NAME=VALUE"),
        ("router.=2", "expected NAMESPACE.NAME=VALUE"),
        (
            "task.num_rules=4",
            r"--set task\.num_rules is not known. The options of the families: search, target",
        ),
        ("task.search=v2", "search='v2' has no meaning for arch='mlp'"),
        (
            "router.heat=2",
            r"router\.heat is not known. The options of monolithic and modular and .*: modules",
        ),
        ("model.cell=lstm", r"--set model\.cell is not known. The options of the architecture 'mlp': none"),
        ("training.speed=2", r"--set training\.speed is not known. The options of training: steps, learning"),
        ("evaluation.steps=2", r"--set evaluation\.steps is not known. The options of evaluation: batches"),
        ("training.steps=many", "steps='many' is not valid; expected an integer of at least 1"),
        ("training.clipnorm=-1", r"clipnorm=-1\.0 is not valid; expected a number"),
        ("training.batch_size=None", "expected an integer of at least 1"),
        ("evaluation.conditions=len30", "condition='len30' is not known; expected one of iid, scale2"),
    ],
)
def test_what_has_no_meaning_is_refused(argument, expected):
    with pytest.raises(ValueError, match=expected):
        cells("--set", argument)


@pytest.fixture
def pictures():
    """A family with variants, a setting and a trainer of its own."""

    @register_family("pictures")
    class Pictures(type(FAMILIES["mlp"])):
        settings = ("classification",)
        variants = (
            Variant("plain", router="modular"),
            Variant("two_of_all", router="top_k", model={"router.k": 2}),
            Variant("in_stages", router="modular", trainer=lambda context, *, stages=2, **others: None),
        )
        reference, oracle = "plain", None

    yield
    del FAMILIES._objects["pictures"], FAMILIES._origins["pictures"]


@pytest.mark.usefixtures("pictures")
def test_a_familys_own_variants_and_their_options():
    found = cells("--arch=pictures", "--set=router.modules=3", "--set=trainer.stages=4")
    assert list(found) == ["plain", "two_of_all", "in_stages"]
    assert {cell.task.setting for cell in found.values()} == {"classification"}
    assert [cell.router for cell in found.values()] == [{"modules": 3}] * 3
    assert [cell.trainer for cell in found.values()] == [{}, {}, {"stages": 4}]
    assert list(cells("--arch=pictures", "--variant=plain,switch")) == ["plain", "switch"]
    for refused, words in {
        "--set=router.k=1": r"router\.k is not known. The options of plain and two_of_all and in_stages: ",
        "--set=trainer.steps=1": r"trainer\.steps is not known.*: stages\.",
        "--variant=nope": "'nope' is not known; expected one of plain, two_of_all, in_stages, monolithic",
        "--setting=regression": "regression",
    }.items():
        with pytest.raises(ValueError, match=words):
            cells("--arch=pictures", refused)
    assert "plain,two_of_all,in_stages" in given()["variant"].help
