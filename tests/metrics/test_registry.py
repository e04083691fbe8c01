"""Measures that a user registers, and invalid registrations."""

import doctest
import math
import re
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import numpy as np
import pytest
from processes import succeeds

import modtf.metrics
from modtf.base.registry import Registry
from modtf.metrics import (
    GROUPS,
    MAIN_GROUPS,
    MEASURES,
    Measure,
    activation_measures,
    measure_all,
    register_measure,
    smaller_is_better,
)
from modtf.metrics.registry import BESIDE

ACTIVATION = ["collapse_avg", "collapse_worst", "alignment", "inverse_mutual_information", "adaptation"]
DIAGNOSTIC = ["load_variation", "routing_entropy", "effective_experts", "effective_rank"]
DIAGNOSTIC += ["expert_overlap", "top_label_share"]


def test_the_order_is_that_of_tables():
    assert list(MEASURES) == ["loss", "error", *ACTIVATION, *DIAGNOSTIC]
    assert [measure.name for measure in activation_measures()] == ACTIVATION
    assert list(measure_all(np.eye(3))) == ACTIVATION
    assert list(measure_all(np.eye(3), groups=GROUPS)) == [*ACTIVATION, *DIAGNOSTIC]


@pytest.mark.parametrize("name", MEASURES)
def test_every_entry_is_complete(name):
    measure = MEASURES[name]
    assert measure.name == name
    assert measure.axis_label
    assert measure.description.endswith(".")
    assert "\n" not in measure.description
    assert (measure.function is None) == (measure.group == "performance")
    assert smaller_is_better(name) is measure.smaller_is_better
    if measure.perfect is not None:
        assert measure.perfect == measure.range[0 if measure.smaller_is_better else 1]


def test_axis_labels_differ():
    assert len({measure.axis_label for measure in MEASURES.values()}) == len(MEASURES)


@pytest.mark.parametrize("measure", activation_measures(GROUPS), ids=lambda measure: measure.name)
@pytest.mark.parametrize(
    "matrix", [[[2, -1], [0, 1]], [[0.2, 0.2], [0, 1]], [[np.nan, 1], [0, 1]], [0, 1], [[]]]
)
def test_every_measure_rejects_what_is_no_activation_matrix(measure, matrix):
    with pytest.raises(ValueError, match="activation matrix"):
        measure.function(matrix)


@pytest.mark.parametrize("num_modules", [1, 2])
@pytest.mark.parametrize(
    "measure",
    [measure for measure in activation_measures(GROUPS) if measure.accepts("rule_probs")],
    ids=lambda measure: measure.name,
)
def test_every_measure_rejects_wrong_rule_probs(measure, num_modules):
    A = np.full((2, num_modules), 1 / num_modules)
    for rule_probs in ([0.5, 0.4], [1.5, -0.5], [math.nan, 1], [1 / 3, 1 / 3, 1 / 3], [[0.5, 0.5]], []):
        with pytest.raises(ValueError, match="rule_probs"):
            measure.function(A, rule_probs=rule_probs)


def test_groups():
    groups = [measure.group for measure in MEASURES.values()]
    assert groups == sorted(groups, key=GROUPS.index)
    with pytest.raises(ValueError, match="groups='speed' is not known; expected one of performance"):
        activation_measures(["collapse", "speed"])


def test_unknown_measure():
    with pytest.raises(KeyError, match=r"accuracy.*loss, error, collapse_avg"):
        smaller_is_better("accuracy")


LISTED = """
import sys, types
import modtf
package = types.ModuleType("modtf.metrics")  # the package itself imports every measure
package.__path__ = [modtf.__path__[0] + "/metrics"]
sys.modules["modtf.metrics"] = package
from modtf.metrics.registry import MEASURES
assert "alignment" in list(MEASURES)
assert "modtf.metrics.alignment" not in sys.modules
assert MEASURES["alignment"].function([[0, 1], [1, 0]]) == 0
"""
MEASURED = """
import sys
import modtf.metrics
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"tensorflow", "keras"}, loaded
assert "scipy" not in loaded
modtf.metrics.measure_all([[1, 0], [0, 1]])
assert not {name.partition(".")[0] for name in sys.modules} & {"tensorflow", "keras"}
"""


@pytest.mark.parametrize("script", [LISTED, MEASURED], ids=["listed", "measured"])
def test_measures_are_listed_without_their_modules_and_measured_without_tensorflow(script):
    succeeds("-c", script)


def test_accepts_what_numpy_can_read():
    """Anything with `__array__`, as tensors have, is an activation matrix."""

    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return np.eye(2, dtype=dtype or np.float32)

    assert measure_all(Tensor())["alignment"] == 0


@pytest.mark.parametrize("name", [m.name for m in walk_packages(modtf.metrics.__path__, "modtf.metrics.")])
def test_the_examples_in_the_docstrings_are_true(name):
    assert doctest.testmod(import_module(name)).failed == 0


@pytest.mark.parametrize("measure", activation_measures(GROUPS), ids=lambda measure: measure.name)
def test_every_measure_says_where_it_comes_from(measure):
    text = measure.function.__doc__
    assert re.search(r"Source: .*\(\d{4}\)", text)
    assert "Example:" in text
    if measure.group == "diagnostic":
        assert "What fools it:" in text


@pytest.mark.parametrize("groups", [np.array(2.0), np.ones([1, 0])], ids=["a number", "an empty row"])
def test_groups_that_are_no_texts_are_named(groups):
    with pytest.raises(ValueError, match="groups="):
        measure_all(np.eye(3), groups=groups)


FACTS: dict[str, Any] = {"group": "collapse", "range": (0.0, 1.0), "perfect": 0.0}
FACTS |= {"description": "Share of modules that no rule uses.", "axis_label": "Dead modules"}


@pytest.fixture
def registry(monkeypatch):
    """Use a separate registry, so that a test's registrations end with the test."""
    fresh: Registry[Measure] = Registry("measure", {"alignment": "modtf.metrics.alignment"})
    fresh.add("alignment", MEASURES["alignment"], "modtf.metrics.alignment:alignment")
    monkeypatch.setattr("modtf.metrics.registry.MEASURES", fresh)
    return fresh


def test_a_new_measure_is_a_decorated_function(registry):
    @register_measure("dead_modules", **FACTS)
    def dead_modules(A):
        return float((A.max(axis=0) < 0.01).mean())

    A = np.eye(4)[[0, 1, 2, 2]]
    assert dead_modules(A) == 0.25
    assert registry["dead_modules"].function is dead_modules
    assert registry["dead_modules"].smaller_is_better
    assert measure_all(A) == {"alignment": 0.25, "dead_modules": 0.25}
    assert math.isnan(measure_all(np.ones((3, 1)))["dead_modules"]), "one module cannot specialise"


def test_a_diagnostic_of_a_user_is_shown(registry):
    @register_measure("largest", **(FACTS | {"group": "diagnostic", "perfect": None}), smaller_is_better=None)
    def largest(A):
        return A.max()

    assert list(measure_all(np.eye(2), groups=MAIN_GROUPS)) == ["alignment"]
    assert list(measure_all(np.eye(2))) == ["alignment", "largest"], "a user's measure is shown"
    assert measure_all(np.eye(2), groups=GROUPS) == {"alignment": 0, "largest": 1}
    assert measure_all(np.eye(2), groups=["diagnostic"]) == {"largest": 1}
    assert measure_all(np.eye(2), groups="diagnostic") == {"largest": 1}
    with pytest.raises(ValueError, match=r"'largest' cannot rank models.*Rank by one of alignment"):
        smaller_is_better("largest")


@pytest.mark.parametrize("name", BESIDE)
def test_names_of_rows_that_modtf_writes(name):
    with pytest.raises(ValueError, match=f"'{name}' cannot be the name of a measure: modtf writes values"):
        register_measure(name, **FACTS)(lambda A: 0.0)
    assert name not in MEASURES


def test_a_measure_that_returns_no_number(registry):
    def nothing(A) -> Any:
        return None

    register_measure("nothing", **FACTS)(nothing)
    with pytest.raises(ValueError, match="'nothing' returned None; expected a number"):
        measure_all(np.eye(2))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: 0.0, "first argument of its function is None; expected 'A', the activation matrix"),
        (lambda *, A: 0.0, "first argument of its function is A"),
        (
            lambda A, threshold=0.1: 0.0,
            "argument 'threshold=0.1'; expected A and.*rule_probs, usage, rule_frequencies",
        ),
        (lambda A, usage: 0.0, "argument 'usage'; expected A and, with defaults"),
        (lambda A, **options: 0.0, r"argument '\*\*options'"),
    ],
)
def test_signatures_are_checked_at_registration(registry, function, message):
    with pytest.raises(ValueError, match=message):
        register_measure("x", **FACTS)(function)
    assert "x" not in registry


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group": "speed"}, "group is 'speed'; expected one of performance"),
        ({"group": "performance"}, "expected a function of the activation matrix in every group but"),
        ({"function": None}, "function=None; expected a function"),
        ({"range": (1.0, 0.0)}, "low < high"),
        ({"perfect": 1.0}, "perfect is 1.0; expected 0.0, the best value"),
        (
            {"perfect": None},
            "perfect=None and smaller_is_better=True, but the group 'collapse' needs a best value",
        ),
        ({"smaller_is_better": None, "perfect": None}, "or use the group 'diagnostic'"),
        ({"smaller_is_better": None, "group": "diagnostic"}, "perfect is 0.0; expected None, the best value"),
    ],
)
def test_contradictory_definitions(changes, message):
    fields = FACTS | {"name": "x", "smaller_is_better": True, "function": lambda A: 0.0}
    Measure(**fields)
    with pytest.raises(ValueError, match=message):
        Measure(**(fields | changes))
