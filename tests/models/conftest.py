"""Fixtures of the models' tests: all families, architectures, routers and options."""

import inspect
import textwrap
from itertools import product

import numpy as np
import plugin_routers
import pytest
from keras import ops
from registering import forgotten

import modtf
from modtf.base.registry import options_of
from modtf.models.architectures import ARCHITECTURES
from modtf.models.recurrence import CELLS
from modtf.models.routers import ROUTERS, register_router
from modtf.tasks.cell import VARIANTS
from modtf.tasks.families import FAMILIES, with_free_rules
from modtf.tasks.task import Task

RULES = 3  # divides no width evenly
MODULES = 5  # more than rules
CHOICES = {"cell": CELLS}  # choices of the architectures' options


def tasks_of_every_kind(arch):
    """A regression task of a family with every choice of its options that go together."""
    options = [option for option in with_free_rules()[arch].options if option.choices and not option.later]
    tasks = []
    for values in product(*(option.choices or () for option in options)):
        try:
            named = {option.name: value for option, value in zip(options, values, strict=True)}
            tasks.append(Task(arch, "regression", RULES, **named))
        except ValueError:
            continue
    return tasks


def options_of_every_kind(architecture):
    """Options of `build` that choose an architecture, with every choice of its own."""
    known = [name for name in options_of(ARCHITECTURES[architecture], "make_layers") if name in CHOICES]
    for values in product(*(CHOICES[name] for name in known)):
        yield {"architecture": architecture, **dict(zip(known, values, strict=True))}


#: architectures that fit one family alone, whose own tests hold them
OWN = {family.architecture for name, family in FAMILIES.items() if name not in with_free_rules()}
KINDS = [
    (task, options)
    for architecture in ARCHITECTURES
    if ARCHITECTURES[architecture].has_members_axis and architecture not in OWN
    for arch in [name for name in with_free_rules() if FAMILIES[name].architecture == architecture]
    or list(FAMILIES)[:1]
    for task in tasks_of_every_kind(arch)
    for options in options_of_every_kind(architecture)
]
#: what the tests of every kind of model loop over; between them and `plugin_routers` is every capability of
#: a router: scored or not, with weights or not, with a penalty, with a state
PUBLISHED: list[tuple[str, dict[str, int]]] = [(name, {}) for name in VARIANTS] + [
    (name, {"modules": MODULES})
    for name in VARIANTS
    if "modules" in options_of(ROUTERS[name], "__init__", skip=2)
]
OTHERS = [name for name in ROUTERS if name not in VARIANTS]  # see routers/test_registered.py


def one_of_each(values, names, chosen):
    """Return parameters of a test; all except the chosen ones are marked slow."""
    return [
        pytest.param(value, id=name, marks=() if chosen(value) else pytest.mark.slow)
        for value, name in zip(values, names, strict=True)
    ]


def is_first(kind):
    """Return whether it is the first kind of its architecture."""
    architecture = kind[1]["architecture"]
    return kind is next(one for one in KINDS if one[1]["architecture"] == architecture)


KIND_NAMES = ["_".join([task.name, *options.values()]) for task, options in KINDS]
VARIANT_NAMES = ["_".join([name, *(f"{o}{v}" for o, v in router.items())]) for name, router in PUBLISHED]


@pytest.fixture(params=one_of_each(KINDS, KIND_NAMES, is_first))
def kind(request):
    """(task, options of build): one of every kind, R = 3; regression, as no model knows its setting."""
    return request.param


@pytest.fixture(params=tuple(with_free_rules()))
def arch(request):
    """The name of every family."""
    return request.param


@pytest.fixture(params=one_of_each(PUBLISHED, VARIANT_NAMES, lambda v: v[0] != "modular_op" or v[1]))
def variant(request):
    """(name, router options): the published routers, also with M = 5 where that is free."""
    return request.param


@pytest.fixture(params=OTHERS)
def other(request):
    """The name of every unpublished router, for tests of one small model per family."""
    return request.param


@pytest.fixture
def registries():
    """Remove a test's registrations when it ends; registrations by modtf modules imported meanwhile stay."""
    with forgotten(ROUTERS, ARCHITECTURES):
        yield


@pytest.fixture
def plugins(registries):
    """The routers of `plugin_routers`, registered."""
    for name, router in plugin_routers.PLUGINS.items():
        register_router(name)(router)


@pytest.fixture
def documented(registries):
    """documented(class, first, after) -> the names of the example in its docstring, between these words."""

    def run(thing, first, after):
        text = inspect.getdoc(thing) or ""
        code = text[text.index(first) : text.index(after)]
        names = {"modtf": modtf, "ops": ops, "__name__": "documentation"}
        exec(textwrap.dedent("    " + code), names)
        assert len(code.strip().splitlines()) < 25
        return names

    return run


@pytest.fixture(scope="session")
def random_batch():
    """random_batch(tasks, batch, seq_len) -> features and targets of a population, float64."""

    def make(tasks, batch=4, seq_len=4, seed=0):
        rng = np.random.default_rng(seed)
        task = tasks[0]
        tokens = [batch, len(tasks), *([seq_len] if task.is_sequence else [])]
        features = {
            "inputs": rng.standard_normal([*tokens, task.token_width]),
            "rule": rng.integers(task.num_rules, size=tokens).astype(np.int32),
        }
        target = rng.standard_normal([*tokens, *([task.target_width] if task.target_width else [])])
        return features, (target >= 0) * 1.0 if task.setting == "classification" else target

    return make
