"""From flags to cells: the effect of --set, lists and the families' own flags, and their errors."""

import warnings

import pytest
from flag_values import given
from registering import forgotten

from modtf.launch import run, sweep
from modtf.launch.cells import cells_of_flags, choose_cells, warn_without_effect
from modtf.launch.cli import help_of
from modtf.models.routers import ROUTERS, register_router
from modtf.models.routers.base import Router
from modtf.studies import load_study
from modtf.tasks.cell import VARIANTS
from modtf.tasks.families import FAMILIES, register_family
from modtf.tasks.families.mlp import MLP
from modtf.tasks.family import Variant
from modtf.tasks.protocol import Protocol
from modtf.tasks.task import Task


def cells(*arguments):
    return {cell.variant: cell for cell in cells_of_flags(given(run, *arguments))}


def swept(*arguments):
    return cells_of_flags(given(sweep, *arguments))


@pytest.fixture(autouse=True)
def forget():
    with forgotten(ROUTERS, FAMILIES):
        yield


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


@pytest.mark.parametrize(
    ("command", "arguments", "lacking"),
    [
        (run, ["--set=trainer.start_steps=5"], "no effect without trainer.start, which no variant"),
        (run, ["--set=trainer.start_steps=5", "--set=trainer.start=oracle"], ""),
        (sweep, ["--arch=mlp", "--set=trainer.start_steps=5", "--set=trainer.start=none,oracle"], ""),
        (
            run,
            ["--arch=corruptions", "--variant=erm", "--set=model.label=mean"],
            "label has no effect without",
        ),
        (run, ["--arch=corruptions", "--variant=erm,labelled", "--set=model.label=mean"], ""),
    ],
)
def test_options_that_no_variant_uses_are_said(command, arguments, lacking):
    values = given(command, *arguments)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        warn_without_effect(cells_of_flags(values), values)
    assert [lacking in str(warning.message) for warning in raised] == [True] * bool(lacking)


@pytest.fixture
def pictures():
    """A family with variants, a setting and a trainer of its own."""

    @register_family("pictures")
    class Pictures(MLP):
        settings = ("classification",)
        variants = (
            Variant("plain", router="modular"),
            Variant("two_of_all", router="top_k", model={"router.k": 2}),
            Variant("in_stages", router="modular", trainer=lambda context, *, stages=2, **others: None),
        )
        reference, oracle = "plain", None


def test_options_of_task_and_network():
    names = {option.name for family in FAMILIES.values() for option in family.options}
    assert names <= set(given(run)), "every option is a flag"
    for arguments in (["--search=v2"], ["--set", "task.search=v2"], ["--set=task.search=v2"]):
        assert cells("--arch=mha", *arguments)["modular"].task.search == "v2"
    assert cells("--arch=rnn", "--set", "model.cell=simple")["modular"].model == {"cell": "simple"}
    assert cells("--arch=rnn", "--architecture=mha")["modular"].architecture == "mha"
    assert cells("--arch=rnn", "--architecture=rnn")["modular"] == cells("--arch=rnn")["modular"]


@pytest.mark.parametrize("command", [run, sweep])
def test_the_protocol_can_be_changed(command):
    values = ["clipnorm=2", "evaluations=3", "precision=tf32", "weight_decay=1"]
    more = ["draws=7", "conditions=len30,scale2", "batch_size=7"]
    chosen = ["--arch=rnn", "--variant=modular", "--steps=5", "--tasks=1", "--seeds=3", "--learning_rate=0.5"]
    chosen += [*(f"--set=training.{one}" for one in values), *(f"--set=evaluation.{one}" for one in more)]
    (cell,) = cells_of_flags(given(command, *chosen))
    assert cell.members == ((0, 0), (0, 1), (0, 2))
    evaluation = cell.protocol.evaluation
    assert (evaluation.draws, evaluation.conditions, evaluation.batch_size) == (7, ("len30", "scale2"), 7)
    changes = {"steps": 5, "learning_rate": 0.5, "clipnorm": 2.0, "evaluations": 3, "precision": "tf32"}
    assert cell.protocol.training == Protocol.quick(cell.task).replace(**changes, weight_decay=1.0).training
    assert isinstance(cell.protocol.training.clipnorm, float), "else it has another hash"
    assert cells("--arch=rnn", "--set=training.clipnorm=None")["modular"].protocol.training.clipnorm is None


@pytest.mark.usefixtures("tempered")
def test_a_routers_option_goes_to_the_variants_that_know_it():
    found = cells("--set=router.temperature=2", "--set=router.modules=16")
    assert list(found) == [*VARIANTS, "tempered"], "a registered router is a variant"
    assert found["tempered"].router == {"temperature": 2, "modules": 16}
    assert found["modular"].router == {"modules": 16}
    assert found["gt_modular"].router == {}
    assert found["gt_modular"].hash == cells()["gt_modular"].hash
    assert found["modular"].hash != cells()["modular"].hash
    with pytest.raises(ValueError, match=r"--set router\.temperature is not known.*of modular: modules\."):
        cells("--variant=modular", "--set=router.temperature=2")


@pytest.mark.usefixtures("pictures")
def test_a_familys_own_variants_and_their_options():
    found = cells("--arch=pictures", "--set=router.modules=3", "--set=trainer.stages=4")
    assert list(found) == ["plain", "two_of_all", "in_stages"]
    assert {cell.task.setting for cell in found.values()} == {"classification"}
    assert [cell.router for cell in found.values()] == [{"modules": 3}] * 3
    assert [cell.trainer for cell in found.values()] == [{}, {}, {"stages": 4}]
    assert list(cells("--arch=pictures", "--variant=plain,switch")) == ["plain", "switch"]
    together = swept("--arch=mlp,pictures", "--variant=modular,plain", "--set=router.modules=3")
    (plain,) = (cell for cell in together if cell.variant == "plain")
    assert plain.label.split("_r8")[0] == "pictures_classification"
    assert "pictures: plain*, two_of_all*, in_stages*." in given(run)["variant"].help


def test_a_variant_may_have_its_own_network():
    @register_family("networks")
    class Networks(MLP):
        variants = (
            Variant("plain", router="modular"),
            Variant("recurrent", router="modular", architecture="rnn"),
        )
        reference, oracle = "plain", None

    found = cells("--arch=networks", "--set=model.cell=simple")
    assert {name: cell.network for name, cell in found.items()} == {"plain": "mlp", "recurrent": "rnn"}
    assert {name: cell.model for name, cell in found.items()} == {
        "plain": {},
        "recurrent": {"cell": "simple"},
    }
    own = cells("--arch=networks", "--variant=recurrent")["recurrent"]
    assert own.to_dict()["cell"]["architecture"] is None, "the variant's name says it"
    assert cells("--arch=networks", "--variant=recurrent", "--architecture=rnn")["recurrent"] == own
    with pytest.raises(ValueError, match="variant 'recurrent' fixes architecture='rnn'"):
        cells("--arch=networks", "--architecture=mlp")


@pytest.mark.usefixtures("pictures")
@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--set=router.k=1", r"router\.k is not known. The options of plain and two_of_all and in_stages: "),
        ("--set=trainer.steps=1", r"trainer\.steps is not known.*: start, start_steps, stages\."),
        ("--variant=nope", "'nope' is not known; expected one of plain, two_of_all, in_stages, monolithic"),
        ("--setting=regression", "regression"),
    ],
)
def test_what_a_familys_own_variants_refuse(argument, words):
    with pytest.raises(ValueError, match=words):
        cells("--arch=pictures", argument)


def test_lists_are_combined_and_options_go_to_those_that_know_them():
    arguments = ["--arch=mlp,mha", "--rules=2,8", "--width=32", "--search=v1,v2"]
    arguments += ["--variant=modular,monolithic"]
    assert [cell.label for cell in swept(*arguments, "--set", "router.modules=3,4")] == [
        f"{kind}_regression_r{rules}_e32_{variant}"
        for kind, rules in [("mlp", 2), ("mlp", 8), *((f"mha_{v}", r) for v in ("v1", "v2") for r in (2, 8))]
        for variant in ("modular_modules-3", "modular_modules-4", "monolithic")
    ]
    several = ("--set=training.evaluations=5,6", "--set=model.cell=lstm,simple")
    found = [(cell.task.arch, cell.protocol.training.evaluations, *cell.model.values())
             for cell in swept("--arch=mlp,rnn", "--variant=modular", *several)]  # fmt: skip
    rnns = [("rnn", n, kind) for n in (5, 6) for kind in ("lstm", "simple")]
    assert found == [("mlp", 5), ("mlp", 6), *rnns]


def test_what_is_not_given_is_the_quick_presets():
    found = swept("--arch=mlp")
    assert [cell.variant for cell in found] == list(VARIANTS)
    assert found == list(cells("--arch=mlp").values()), "as of launch/run.py"
    assert all(cell.protocol == Protocol.quick(cell.task) for cell in found)
    assert {(cell.task.num_rules, cell.width, len(cell.members)) for cell in found} == {(8, 32, 5)}
    (paper,) = swept("--arch=mlp", "--variant=modular", "--preset=paper")
    assert paper.protocol == Protocol.published(paper.task)


@pytest.mark.parametrize("steps", ["--steps=1000", "--set=training.steps=1000"])
def test_evaluations_shrink_with_the_steps_but_for_the_papers(steps):
    sizes = Protocol.quick(Task("mlp")).evaluation
    short = cells(steps, "--set=evaluation.draws=7")["modular"].protocol.evaluation
    assert (short.batches, short.tokens, short.draws) == (sizes.batches // 10, sizes.tokens // 10, 7)
    published = Protocol.published(Task("mlp")).evaluation
    assert cells(steps, "--preset=paper")["modular"].protocol.evaluation == published


def test_flags_choose_among_the_cells_of_a_study():
    study = load_study("paper").cells
    arguments = ("--study=paper", "--arch=mha", "--rules=2,8", "--width=64")
    chosen = choose_cells(study, given(sweep, *arguments))
    assert len(chosen) == 2 * 2 * 2 * 4
    assert {cell.task.num_rules for cell in chosen} == {2, 8}
    with pytest.raises(ValueError, match="--variant is empty; expected one or more of monolithic, modular"):
        choose_cells(study, given(sweep, "--study=paper", "--variant="))


def test_help_shows_the_options_of_tasks_under_their_families():
    shown = help_of("", given(run), "modtf run", ["--arch=mha,mlp"])
    options = shown.partition("Options of tasks")[2]
    assert options.startswith(" of --arch=mha:\n  --form=linear ")
    assert "One of v1," in options
    of_mha, _, of_mlp = options.partition("Options of tasks of --arch=mlp:")
    assert "--search=v1" in of_mha
    assert "--search" not in of_mlp
    assert "--zipf=0.0" in of_mlp
    assert "--question=attribute" in help_of("", given(run), "modtf run")
