import doctest
import math
import re
from importlib import import_module
from pkgutil import walk_packages

import numpy as np
import pytest
from processes import succeeds

import modtf.metrics
from modtf.metrics import GROUPS, MEASURES, activation_measures, measure_all, smaller_is_better

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
