"""Measures reject invalid activation matrices and invalid activations of tokens with clear errors."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hostile import anything, few, survives
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from registering import forgotten

import modtf
from modtf import metrics
from modtf.routing import measuring

numbers = st.floats(width=32) | st.integers(-1, 3)
matrices = arrays.arrays(float, st.lists(st.integers(0, 4), max_size=4).map(tuple), elements=numbers)
GOOD = np.eye(3)[np.arange(12) % 3]
ELSEWHERE = ("register_measure", "measure_activations", "moved_names", "__getattr__")
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: thing
    for name, thing in sorted({**vars(metrics), **vars(measuring)}.items())
    if inspect.isfunction(thing) and name not in ELSEWHERE
}
NAMES = [name for name in inspect.signature(modtf.measure_activations).parameters if name != "permutations"]


@few
@given(A=anything | matrices)
def test_measure_all(A):
    found = survives(lambda: metrics.measure_all(A))
    assert found is None or set(found) == {m.name for m in metrics.activation_measures()}


@pytest.mark.parametrize("name", ["usage", "rule_probs", "rule_frequencies", "groups"])
@few
@given(value=anything | matrices)
def test_what_goes_with_a_matrix(name, value):
    survives(lambda: metrics.measure_all(np.eye(3), **{name: value}))


@pytest.mark.parametrize("name", NAMES)
@few
@given(value=anything | matrices)
def test_measure_activations(name, value):
    given_ = {"activations": GOOD, "labels": np.arange(12) % 3, "permutations": 2, name: value}
    found = survives(lambda: modtf.measure_activations(**given_))
    assert found is None or len(found) >= 0


NO_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "masked": np.ma.masked_array,
    "complex": lambda array: array + 0j,
    "text": lambda array: array.astype(str),
    "text in objects": lambda array: array.astype(str).astype(object),
    "dates": lambda array: array.astype("M8[s]"),
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_what_numpy_would_make_numbers_of(kind):
    A, labels, make = np.eye(3), np.arange(12) % 3, NO_NUMBERS[kind]
    calls: list[Callable[[], Any]] = [
        lambda: metrics.measure_all(make(A)),
        lambda: metrics.measure_all(A, usage=make(A)),
        lambda: metrics.measure_all(A, rule_probs=make(A[0])),
        lambda: metrics.measure_population(make(A[None])),
        lambda: metrics.alignment(make(A)),
        lambda: metrics.from_counts(make(A), np.ones(3)),
        lambda: modtf.measure_activations(make(A)),
        lambda: modtf.measure_activations(make(GOOD), labels, permutations=2),
    ]
    for call in calls:
        with pytest.raises(
            ValueError, match=f"must be a rectangular array of numbers: the values are {kind[:4]}"
        ):
            call()


def test_masked_labels_and_too_many_permutations():
    labels = np.ma.masked_array(np.arange(12) % 3)
    for some in (labels, labels.astype(str)):
        with pytest.raises(ValueError, match=r"labels are masked\. Leave out"):
            modtf.measure_activations(GOOD, some)
    too_many: list[Any] = [10**9, 1e9, 10**30]
    for number in too_many:
        with pytest.raises(ValueError, match=r"permutations=.* is not valid; expected an integer of at"):
            modtf.measure_activations(GOOD, np.arange(12) % 3, permutations=number)


def test_every_public_function_is_tried():
    assert {m.name for m in metrics.activation_measures(metrics.GROUPS)} <= set(FUNCTIONS)
    assert {"best_match", "from_counts", "rule_distributions"} <= set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
@few
@given(data=st.data())
def test_functions(name, data):
    """Either one argument is invalid, or all are."""
    function = FUNCTIONS[name]
    good = {"A": np.eye(3), "matrix": np.eye(3), "num_rules": 3, "num_draws": 2, "name": "alignment"}
    good |= {"sums": np.eye(3), "counts": np.ones(3), "usage": np.eye(3), "rule_distributions": np.eye(3)}
    good |= {"runs": {"a": GOOD, "b": GOOD}, "labels": np.arange(12) % 3, "activations": GOOD}
    good |= {"factors": {"token": np.arange(12) % 2, "position": np.arange(12)}}
    if name == "measure_population":
        good = {"A": np.eye(3)[None]}
    names = list(inspect.signature(function).parameters)
    wrong = data.draw(st.lists(st.sampled_from(names), max_size=2, unique=True)) if names else []
    given_ = {n: good[n] for n in names if n in good and n not in wrong}
    given_ |= {n: data.draw(anything | matrices) for n in wrong}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("modtf.memory.memory_here", lambda: 1 << 28)
        survives(lambda: function(**given_))


@few
@given(options=st.dictionaries(st.sampled_from(["from_logits", "top_k", "num_groups"]), anything, max_size=2),
       chunks=st.lists(st.tuples(anything | matrices | st.just(GOOD), anything), max_size=3),
       asked=st.dictionaries(st.sampled_from(NAMES[6:]), anything, max_size=1))  # fmt: skip
def test_an_accumulator(options, chunks, asked):
    atlas = survives(lambda: measuring.ActivationAccumulator(**options))
    if atlas is not None:
        for activations, labels in chunks:
            survives(lambda a=activations, b=labels: atlas.update(a, b))
        survives(lambda: atlas.result(**{"permutations": 2, **asked}))


SAID: dict[str, Any] = {
    "name": "hostile", "group": "specialisation", "range": (0.0, 1.0), "perfect": 0.0, "description": "Said.",
    "axis_label": "Said", "smaller_is_better": True, "function": lambda A: 0.5,
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
@few
@given(value=anything)
def test_a_measure_of_a_user(name, value):
    said = {**SAID, name: value}
    function = said.pop("function")
    with forgotten(metrics.MEASURES):
        survives(lambda: metrics.register_measure(**said)(function))
