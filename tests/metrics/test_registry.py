import math
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from modtf.metrics import MEASURES, Measure, activation_measures, measure_all, measures, smaller_is_better
from modtf.metrics.measure import GROUPS
from modtf.registry import Registry

ACTIVATION = ["collapse_avg", "collapse_worst", "alignment", "inverse_mutual_information", "adaptation"]


def test_the_order_is_that_of_tables():
    assert list(MEASURES) == ["loss", "error", *ACTIVATION]
    assert [measure.name for measure in activation_measures()] == ACTIVATION
    assert list(measure_all(np.eye(3))) == ACTIVATION


@pytest.mark.parametrize("name", MEASURES)
def test_every_entry_is_complete(name):
    measure = MEASURES[name]
    assert measure.name == name
    assert measure.range[0] <= measure.perfect <= measure.range[1]
    assert measure.axis_label
    assert measure.description.endswith(".")
    assert "\n" not in measure.description
    assert (measure.function is None) == (measure.group == "performance")
    assert smaller_is_better(name) is measure.smaller_is_better


def test_axis_labels_differ():
    assert len({measure.axis_label for measure in measures()}) == len(MEASURES)


@pytest.mark.parametrize("measure", activation_measures(), ids=lambda measure: measure.name)
@pytest.mark.parametrize(
    "matrix", [[[2, -1], [0, 1]], [[0.2, 0.2], [0, 1]], [[np.nan, 1], [0, 1]], [0, 1], [[]]]
)
def test_every_measure_rejects_what_is_no_activation_matrix(measure, matrix):
    with pytest.raises(ValueError, match="activation matrix"):
        measure.function(matrix)


@pytest.mark.parametrize("num_modules", [1, 2])
@pytest.mark.parametrize(
    "measure",
    [measure for measure in activation_measures() if measure.accepts("rule_probs")],
    ids=lambda measure: measure.name,
)
def test_every_measure_rejects_wrong_rule_probs(measure, num_modules):
    A = np.full((2, num_modules), 1 / num_modules)
    for rule_probs in ([0.5, 0.4], [1.5, -0.5], [math.nan, 1], [1 / 3, 1 / 3, 1 / 3], [[0.5, 0.5]], []):
        with pytest.raises(ValueError, match="rule_probs"):
            measure.function(A, rule_probs=rule_probs)


def test_a_new_measure_is_one_line(monkeypatch):
    def dead_modules(A):
        return float((A.max(axis=0) < 0.01).mean())

    dead = replace(MEASURES["collapse_avg"], name="dead_modules", function=dead_modules)
    monkeypatch.setitem(sys.modules, "dead_modules", SimpleNamespace(MEASURE=dead))
    extended: Registry[Measure] = Registry("measure", {"dead_modules": "dead_modules:MEASURE"})
    monkeypatch.setattr("modtf.metrics.registry.MEASURES", extended)
    assert measure_all(np.eye(4)[[0, 1, 2, 2]]) == {"dead_modules": 0.25}


def test_groups():
    assert [measure.name for group in GROUPS for measure in measures(group)] == list(MEASURES)
    with pytest.raises(ValueError, match="Unknown group of measures 'speed'; expected one of performance"):
        measures("speed")


def test_unknown_measure():
    with pytest.raises(KeyError, match=r"accuracy.*loss, error, collapse_avg"):
        smaller_is_better("accuracy")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group": "speed"}, "group 'speed' is not in performance"),
        ({"range": (1.0, 0.0)}, "low < high"),
        ({"range": (0.0, math.nan)}, "low < high"),
        ({"perfect": 1.0}, "perfect is 1.0.*the best value is 0.0"),
        ({"smaller_is_better": False}, "perfect is 0.0.*the best value is 1.0"),
    ],
)
def test_contradictory_definitions(changes, message):
    fields: dict[str, Any] = {
        "name": "x",
        "group": "collapse",
        "range": (0.0, 1.0),
        "perfect": 0.0,
        "smaller_is_better": True,
        "description": "X.",
        "axis_label": "X",
    }
    Measure(**fields)
    with pytest.raises(ValueError, match=message):
        Measure(**(fields | changes))
