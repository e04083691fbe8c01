"""Measures do not depend on how the tokens are passed."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from activation_strategies import FAST
from activation_tokens import QUICK, SPECIALISED, assert_same, draw_tokens, soft_tokens, softmax
from hypothesis import given
from hypothesis import strategies as st

from modtf.metrics import GROUPS, MEASURES, from_counts, measure_all
from modtf.routing.measuring import ActivationAccumulator, measure_activations

WITHOUT_LABELS = {"collapse_avg", "collapse_worst", "load_variation", "effective_experts"}


def rows_of(layers):
    return [row for layer in layers for row in layer.to_rows()]


def assert_equal(view, other):
    """Exactly, where NaN equals NaN."""
    ours, theirs = ({name: vars(one) for name, one in v.values.items()} for v in (view, other))
    np.testing.assert_equal(ours, theirs)


def assert_close(values, expected):
    """All but adaptation, for which labels have an order of their own."""
    assert values == pytest.approx(expected | {"adaptation": values["adaptation"]})


def test_both_views_are_the_measures_of_their_matrices():
    logits, labels = soft_tokens()
    gates = softmax(logits)
    (layer,) = measure_activations(gates, labels, permutations=3)
    counts = np.bincount(labels)
    sums = np.zeros((2, 3, 5))
    for row, label in zip(gates, labels, strict=True):
        sums[0, label] += row
        sums[1, label, row.argmax()] += 1
    for view, by, total in zip(layer.views, ("mass", "hard"), sums, strict=True):
        assert view.by == by
        np.testing.assert_allclose(view.activation, from_counts(total, counts))
        np.testing.assert_allclose(view.use, total.sum(axis=0) / 300)
        expected = measure_all(view.activation, rule_probs=counts / 300, groups=GROUPS)
        found = {name: estimate.value for name, estimate in view.values.items()}
        assert found.pop("adjusted_mutual_information") < 1 - found["inverse_mutual_information"]
        assert found.keys() == expected.keys()
        assert_close(found, expected)
    np.testing.assert_array_equal(layer.label_counts, counts)
    np.testing.assert_array_equal(layer.module_tokens, sums[1].sum(axis=0))


@FAST
@given(cuts=st.lists(st.integers(0, 300), max_size=5), with_documents=st.booleans(), as_lists=st.booleans())
def test_chunks_make_no_difference(cuts, with_documents, as_lists):
    logits, labels = soft_tokens()
    documents = np.arange(300) // 20 if with_documents else None
    whole = measure_activations(logits, labels, documents=documents, from_logits=True, **QUICK)
    edges = [0, *sorted(cuts), 300]

    def chunks():
        for start, stop in pairwise(edges):
            arrays = (logits, labels) if documents is None else (logits, labels, documents)
            chunk = [array[start:stop] for array in arrays]
            yield [array.tolist() for array in chunk] if as_lists and start < stop else tuple(chunk)

    assert_same(measure_activations(chunks(), from_logits=True, **QUICK), whole)


def test_an_accumulator_may_be_asked_on_the_way():
    logits, labels = soft_tokens()
    accumulator = ActivationAccumulator(from_logits=True)
    accumulator.update(logits[:100], labels[:100])
    first = accumulator.result(**QUICK)
    accumulator.update(logits[100:], labels[100:])
    assert_same(first, measure_activations(logits[:100], labels[:100], from_logits=True, **QUICK))
    assert_same(accumulator.result(**QUICK), measure_activations(logits, labels, from_logits=True, **QUICK))


def test_labels_that_come_late_or_never():
    gates, labels = draw_tokens(SPECIALISED, 600, seed=0)
    order = np.argsort(labels)  # the first chunks hold label 0 alone
    names = np.array([0, 4, 7])
    chunks = ((gates[part], names[labels[part]]) for part in np.array_split(order, 6))
    (layer,) = measure_activations(chunks, permutations=3)
    assert layer.labels.tolist() == [0, 4, 7]
    (expected,) = measure_activations(gates, labels, permutations=3)
    np.testing.assert_allclose(layer.mass.activation, expected.mass.activation)
    np.testing.assert_array_equal(layer.mass.top_label, names[expected.mass.top_label])


@FAST
@given(order=st.permutations(range(5)), top_k=st.sampled_from([None, 1, 2, 5]))
def test_the_order_of_modules_does_not_matter(order, top_k):
    logits, labels = soft_tokens()
    found, expected = (
        measure_activations(some, labels, from_logits=True, top_k=top_k, **QUICK)
        for some in (logits[:, order], logits)
    )
    assert_same(found, expected)


def test_label_probs():
    gates, labels = draw_tokens(SPECIALISED, 2000, seed=1)
    uniform, same, given_ = (
        measure_activations(gates, labels, label_probs=probs, permutations=2)[0].mass
        for probs in ("uniform", [1 / 3] * 3, [0.8, 0.1, 0.1])
    )
    assert_equal(uniform, same)
    assert uniform.values["alignment"].value == pytest.approx(measure_all(uniform.activation)["alignment"])
    expected = measure_all(given_.activation, rule_probs=[0.8, 0.1, 0.1])
    assert given_.values["alignment"].value == pytest.approx(expected["alignment"])
    np.testing.assert_allclose(given_.use, [0.8, 0.1, 0.1] @ given_.activation)


def test_a_bare_activation_matrix():
    (layer,) = measure_activations(activation_matrix=SPECIALISED)
    values = {name: estimate.value for name, estimate in layer.mass.values.items()}
    assert_close(values, measure_all(SPECIALISED, groups=GROUPS))
    assert all(np.isnan(e.low) and np.isnan(e.chance) for e in layer.mass.values.values())
    assert layer.module_tokens is layer.label_counts is layer.too_few is None
    assert layer.module_rows()[1]["top_label"] == 1
    assert layer.module_rows()[1]["tokens"] is None
    with pytest.raises(ValueError, match="has no information about hard assignment"):
        _ = layer.hard
    two = np.stack([SPECIALISED, SPECIALISED[::-1]]).tolist()
    both = measure_activations(activation_matrix=two, label_probs=[0.5, 0.3, 0.2])
    assert [layer.layer for layer in both] == [0, 1]
    expected = measure_all(SPECIALISED, rule_probs=[0.5, 0.3, 0.2])["alignment"]
    assert both[0].mass.values["alignment"].value == pytest.approx(expected)


def test_gate_mass_and_hard_assignment_tell_different_stories():
    labels = np.arange(400) % 4
    (layer,) = measure_activations(0.04 * np.eye(4)[labels] + 0.24, labels, permutations=10)
    assert layer.hard.values["alignment"].value == 0
    assert layer.mass.values["alignment"].value == pytest.approx(0.72)


def test_every_registered_measure_has_its_row():
    gates, labels = draw_tokens(SPECIALISED, 500, seed=0)
    (layer,) = measure_activations(gates, labels, permutations=3)
    names = set(MEASURES) - {"loss", "error"} | {"adjusted_mutual_information"}
    for view in layer.views:
        assert set(view.values) == names
        for name in names & set(MEASURES):
            low, high = MEASURES[name].range
            estimate = view.values[name]
            assert low <= estimate.low <= estimate.value <= estimate.high <= high
            assert np.isnan(estimate.chance) == (name in WITHOUT_LABELS)
    columns = "layer by measure value low high chance chance_low chance_high"
    assert list(layer.to_rows()[0]) == columns.split()


@pytest.mark.parametrize(
    "groups", ["collapse", ["collapse"], iter(["collapse"])], ids=["str", "list", "iter"]
)
def test_some_groups_of_measures(groups):
    gates, labels = draw_tokens(SPECIALISED, 100, seed=0)
    (layer,) = measure_activations(gates, labels, groups=groups, permutations=2)
    assert list(layer.hard.values) == ["collapse_avg", "collapse_worst"]


def test_one_module_has_no_value():
    (layer,) = measure_activations(np.ones((9, 1)), np.arange(9) % 3, permutations=4)
    assert all(np.isnan(v) for row in layer.to_rows() for v in list(row.values())[3:])


def test_the_numbers_of_labels_do_not_matter():
    """Nor do they for `adaptation`, which draws a probability for each label in turn."""
    logits, labels = soft_tokens(num_labels=4)
    labels[:30] = 2  # some are more frequent
    number = np.array([5, 0, 3, 1])
    options: Any = {"documents": np.arange(300), "from_logits": True, "permutations": 0}
    (found,), (expected,) = (measure_activations(logits, c, **options) for c in (number[labels], labels))
    for view, other in zip(found.views, expected.views, strict=True):
        assert view.values["adaptation"].value == pytest.approx(other.values["adaptation"].value, abs=1e-12)


def test_layers_of_different_sizes_are_measured_alone_and_chunks_in_a_list():
    logits, labels = soft_tokens(layers=(2,))
    layers = [logits[0], logits[1, :, :3]]
    found = measure_activations(layers, labels, from_logits=True, **QUICK)
    assert [layer.mass.activation.shape for layer in found] == [(3, 5), (3, 3)]
    assert [layer.layer for layer in found] == [0, 1]
    assert {row["layer"] for row in rows_of(found)} == {0, 1}
    alone = [measure_activations(some, labels, from_logits=True, **QUICK)[0] for some in layers]
    for layer, other in zip(found, alone, strict=True):
        assert_equal(layer.mass, other.mass)
        assert_equal(layer.hard, other.hard)
    chunks = [([some[part] for some in layers], labels[part]) for part in (slice(100), slice(100, 300))]
    assert_same(measure_activations(chunks, from_logits=True, **QUICK), found)


def test_tokens_that_no_module_took_are_counted():
    gates, labels = draw_tokens(SPECIALISED, 500, seed=0)
    took = np.arange(500) % 5 != 0
    both, documents = np.stack([gates * took[:, np.newaxis], gates]), np.arange(500) // 10
    first, second = measure_activations(both, labels, documents=documents, **QUICK)
    assert (first.dropped, second.dropped) == (100, 0)
    (expected,) = measure_activations(gates[took], labels[took], documents=documents[took], **QUICK)
    assert_same([first], [expected])
    assert first.label_counts is not None
    assert first.label_counts.sum() == 400


def test_names_in_place_of_numbers():
    gates, labels = draw_tokens(SPECIALISED, 300, seed=0)
    names = np.array(["verse", "code", "law"])
    words = [f"text {number}" for number in np.arange(300) // 10]
    (found,) = measure_activations(gates, names[labels], documents=words, **QUICK)
    (expected,) = measure_activations(gates, labels, documents=np.arange(300) // 10, **QUICK)
    assert found.label_names == ("code", "law", "verse")
    assert [row["top_label_name"] for row in found.module_rows()[:3]] == names.tolist()
    assert "top_label_name" not in expected.module_rows()[0]
    np.testing.assert_allclose(found.mass.activation, expected.mass.activation[[1, 2, 0]])
    with pytest.raises(ValueError, match="Some chunks have labels as names and some as numbers"):
        measure_activations([(gates, labels), (gates, names[labels])])


def test_label_probs_are_in_the_order_of_the_alphabet_if_names_come_in_chunks():
    gates, numbers = draw_tokens(SPECIALISED, 600, 0)
    numbers, probs = np.sort(numbers), [0.7, 0.2, 0.1]
    names = np.array(["code", "law", "verse"])[numbers]
    parts = [slice(400, 600), slice(0, 200), slice(200, 400)]  # the last label comes first
    chunks = [(gates[part], names[part]) for part in parts]
    (found,) = measure_activations(chunks, label_probs=probs, permutations=0)
    (expected,) = measure_activations(gates, names, label_probs=probs, permutations=0)
    np.testing.assert_allclose(found.hard.use, expected.hard.use)
    assert found.label_names != expected.label_names
    assert "code = 0.7" in found.how
