"""Meaningless declarations, registrations and plug-ins are refused by name."""

import dataclasses
import inspect
import sys
from typing import Any

import pytest
from hostile import anything, few, survives
from hypothesis import given
from hypothesis import strategies as st
from registering import forgotten

import modtf
from modtf.analysis.claims.registry import CLAIMS
from modtf.analysis.figures import FIGURES
from modtf.families import FAMILIES
from modtf.models.architectures import ARCHITECTURES
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS

KINDS = {"family": FAMILIES, "architecture": ARCHITECTURES, "router": ROUTERS}
KINDS |= {"model": MODELS, "figure": FIGURES, "claim": CLAIMS}
REGISTER: dict[str, Any] = {f"register_{kind}": registry for kind, registry in KINDS.items()}
OPTION: dict[str, Any] = {"name": "metal", "default": 1.0, "description": "what they are made of"}
CLAIM: dict[str, Any] = {"text": "coins fall", "figure": "coins", "statistic": "share of heads"}
CONDITION: dict[str, Any] = {"name": "heavy", "label": "x 3"}


@pytest.fixture(autouse=True)
def forget():
    """Remove a test's registrations and imports after the test."""
    modules = set(sys.modules)
    with forgotten(*REGISTER.values()):
        yield
    for name in set(sys.modules) - modules:
        if name.startswith("hostile_plugin"):
            del sys.modules[name]


@pytest.mark.parametrize("register", REGISTER)
@few
@given(
    name=anything | st.just("hostile"), thing=anything | st.sampled_from([dict, len, lambda: 1, modtf.Family])
)
def test_registering(register, name, thing):
    before = list(REGISTER[register])
    said = CLAIM if register == "register_claim" else {}
    with forgotten(REGISTER[register]):
        if survives(lambda: getattr(modtf, register)(name, **said)(thing), repr(name), str(name)) is None:
            assert list(REGISTER[register]) == before


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(modtf.Option)])
@few
@given(value=anything, asked=anything)
def test_option(name, value, asked):
    option = survives(lambda: modtf.Option(**{**OPTION, name: value}), name, "default")
    if option is not None:
        allowed = survives(lambda: option.check(asked), option.name)
        if allowed is not None:
            assert isinstance(option.show(allowed), str)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(modtf.Condition)])
@few
@given(value=anything)
def test_condition(name, value):
    condition = survives(lambda: modtf.Condition(**{**CONDITION, name: value}), name)
    if condition is not None:
        assert condition.of("loss") in ("loss", f"loss_{condition.name}")
        assert set(condition.stream_options()) <= {"scale", "seq_len", "options"}


SAID: dict[str, Any] = {
    "title": "Coins", "data": "coins:Data", "architecture": "mlp", "headline": "heavy",
    "settings": ("regression",), "options": (modtf.Option(**OPTION),), "is_sequence": False,
    "training_length": 10, "min_tokens": 1,
    "conditions": (modtf.Condition("iid", "as in training", True), modtf.Condition(**CONDITION)),
    "performance": {"regression": "loss"},
    "variants": (modtf.variants.Variant("modular"),), "reference": "modular", "oracle": None,
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
@few
@given(value=anything | st.lists(st.sampled_from(SAID["options"] + SAID["conditions"]), max_size=2))
def test_family(name, value):
    methods = {m: lambda self, task: 3 for m in ("token_width", "published", "quick")}
    family = type("Coins", (modtf.Family,), {**SAID, **methods, name: value})
    with forgotten(FAMILIES):
        survives(lambda: modtf.register_family("hostile")(family), "'hostile'")


@few
@given(location=anything | st.sampled_from(["os.path", "no.module", "..", "a/b", ".py", "modtf.", "/.py"]))
def test_load_plugin(location):
    survives(lambda: modtf.load_plugin(location))


def test_every_public_name_is_tried_somewhere():
    """Add a new public name here, and to one of these tests."""
    tried = {
        "test_hostile_values": "Task Training Evaluation Protocol Cell Population",
        "test_hostile_declarations": f"{' '.join(REGISTER)} Option Condition Family load_plugin",
        "test_hostile_arrays": "measure_activations register_measure",
        "test_hostile_models": "stream build train load_model",
        "test_hostile_outputs": "evaluate",
        "test_hostile_files": "load_results Study",
        "test_hostile_tables": "summarise",
        "test_hostile_cells": "run_cell",
        "test_collect": "collect",
        "test_record": "record",
        "test_contract": "analyse_routing register_analysis",
        "test_similarity": "expert_similarity",
        "test_convert": "convert",
        "test_damaged": "read_routing",
        "test_report": "write_routing_report",
    }
    source = inspect.getsource(modtf)
    public = {line.split(" as ")[1] for line in source.splitlines() if line.startswith("    from modtf")}
    assert public == set(" ".join(tried.values()).split())
