import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from modtf.metrics import (
    GROUPS,
    MEASURES,
    Measure,
    activation_measures,
    measure_all,
    measures,
    register_measure,
    smaller_is_better,
)
from modtf.registry import Registry

ACTIVATION = ["collapse_avg", "collapse_worst", "alignment", "inverse_mutual_information", "adaptation"]
DIAGNOSTIC = [
    "load_variation",
    "routing_entropy",
    "effective_experts",
    "effective_rank",
    "expert_overlap",
    "top_label_share",
]


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
    assert len({measure.axis_label for measure in measures()}) == len(MEASURES)


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


FACTS: dict[str, Any] = {
    "group": "collapse",
    "range": (0.0, 1.0),
    "perfect": 0.0,
    "description": "Share of modules that no rule uses.",
    "axis_label": "Dead modules",
}


@pytest.fixture
def registry(monkeypatch):
    """A registry of its own, so that what a test registers is gone afterwards."""
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


def test_a_diagnostic_is_computed_where_it_is_asked_for(registry):
    @register_measure("largest", **(FACTS | {"group": "diagnostic", "perfect": None}), smaller_is_better=None)
    def largest(A):
        return A.max()

    assert list(measure_all(np.eye(2))) == ["alignment"]
    assert measure_all(np.eye(2), groups=GROUPS) == {"alignment": 0, "largest": 1}
    assert measure_all(np.eye(2), groups=["diagnostic"]) == {"largest": 1}
    assert measure_all(np.eye(2), groups="diagnostic") == {"largest": 1}
    with pytest.raises(ValueError, match=r"'largest' has no better direction.*Rank by one of alignment"):
        smaller_is_better("largest")


def test_a_measure_that_returns_no_number(registry):
    def nothing(A) -> Any:
        return None

    register_measure("nothing", **FACTS)(nothing)
    with pytest.raises(ValueError, match="'nothing' returned None; expected a number"):
        measure_all(np.eye(2))


def test_a_taken_name_is_refused(registry):
    with pytest.raises(ValueError, match=r"measure 'alignment'.*is there already, from modtf.metrics"):
        register_measure("alignment", **FACTS)(lambda A: 0.0)
    with pytest.raises(ValueError, match="'Dead modules' cannot name a measure"):
        register_measure("Dead modules", **FACTS)


def wrong_first(matrix):
    """Does not ask for A."""


def wrong_keyword(*, A):
    """Cannot be called with A alone."""


def wrong_other(A, threshold=0.1):
    """Asks for what nobody can give."""


def wrong_required(A, usage):
    """Asks for what not everybody can give."""


def wrong_any(A, **options):
    """Asks for anything."""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: 0.0, "first argument of its function is None; expected the activation matrix, A"),
        (wrong_first, "first argument of its function is matrix"),
        (wrong_keyword, "first argument of its function is A"),
        (wrong_other, "argument 'threshold=0.1'; expected A and.*rule_probs, usage, rule_frequencies"),
        (wrong_required, "argument 'usage'; expected A and, with defaults"),
        (wrong_any, r"argument '\*\*options'"),
    ],
)
def test_signatures_are_checked_at_registration(registry, function, message):
    with pytest.raises(ValueError, match=message):
        register_measure("x", **FACTS)(function)
    assert "x" not in registry


def test_groups():
    assert [m for group in GROUPS for m in measures(group)] == list(MEASURES.values())
    with pytest.raises(ValueError, match="group='speed' is not known; expected one of performance"):
        measures("speed")
    with pytest.raises(ValueError, match="group='speed' is not known"):
        activation_measures(["collapse", "speed"])


def test_unknown_measure():
    with pytest.raises(KeyError, match=r"accuracy.*loss, error, collapse_avg"):
        smaller_is_better("accuracy")


def test_names_are_listed_without_importing_the_measures():
    script = """
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
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group": "speed"}, "group 'speed' is not in performance"),
        ({"group": "performance"}, "expected a function of the activation matrix in every group but"),
        ({"function": None}, "function=None; expected a function"),
        ({"range": (1.0, 0.0)}, "low < high"),
        ({"range": (0.0, math.nan)}, "low < high"),
        ({"perfect": 1.0}, "perfect is 1.0.*the best value is 0.0"),
        ({"perfect": None}, "perfect=None and smaller_is_better=True; in the group 'collapse' there must be"),
        ({"smaller_is_better": False}, "perfect is 0.0.*the best value is 1.0"),
        ({"smaller_is_better": None, "perfect": None}, "Without one it is a 'diagnostic'"),
        ({"smaller_is_better": None, "group": "diagnostic"}, "perfect is 0.0.*the best value is None"),
    ],
)
def test_contradictory_definitions(changes, message):
    fields = FACTS | {"name": "x", "smaller_is_better": True, "function": lambda A: 0.0}
    Measure(**fields)
    with pytest.raises(ValueError, match=message):
        Measure(**(fields | changes))
