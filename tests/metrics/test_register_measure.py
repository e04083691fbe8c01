"""Measures that a user registers, and invalid registrations."""

from typing import Any

import numpy as np
import pytest

from modtf.base.registry import Registry
from modtf.metrics import (
    GROUPS,
    MAIN_GROUPS,
    MEASURES,
    Measure,
    measure_all,
    register_measure,
    smaller_is_better,
)
from modtf.metrics.registry import BESIDE

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
