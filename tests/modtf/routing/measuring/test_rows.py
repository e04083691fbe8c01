"""Tokens without labels, and invalid rows: placeholders, probabilities passed as logits."""

import numpy as np
import pytest
from activation_tokens import QUICK, SPECIALISED, assert_same, draw_tokens, soft_tokens, softmax

from modtf.routing.measuring import ActivationAccumulator, measure_activations

WITHOUT_LABELS = {"collapse_avg", "collapse_worst", "load_variation", "effective_experts"}


@pytest.mark.parametrize("labels", [None, np.zeros(600, int)], ids=["no labels", "one label"])
def test_without_labels_there_is_what_needs_none(labels):
    """The load is that of all tokens; tokens are never taken for an activation matrix."""
    logits, of = soft_tokens(600)
    gates, documents = softmax(logits), np.arange(600) // 20
    (found,) = measure_activations(gates, labels, documents=documents)
    (expected,) = measure_activations(gates, of, documents=documents, permutations=0)
    for view, other in zip(found.views, expected.views, strict=True):
        assert set(view.values) == WITHOUT_LABELS | {"routing_entropy"}
        np.testing.assert_allclose(view.use, other.use)
        for name in WITHOUT_LABELS:
            ours, theirs = view.values[name], other.values[name]
            assert ours.value == pytest.approx(theirs.value)
            assert ours.low == pytest.approx(theirs.low, rel=0.05), "given the labels, or not"
            assert ours.low < ours.high
            assert np.isnan(ours.chance)
        use = view.use
        entropy = -(use * np.log(use)).sum() / np.log(5)
        assert view.values["routing_entropy"].value == pytest.approx(entropy)
    assert found.label_names == (("all tokens",) if labels is None else None)
    assert any("There are no labels. Give labels=" in text for text in found.warnings) == (labels is None)
    chunks = [(gates[part], labels, documents[part]) for part in (slice(200), slice(200, 600))]
    if labels is None:
        assert_same(measure_activations(chunks), [found])


def test_a_placeholder_layer_is_left_out_and_named():
    """vLLM writes zeros for dense layers and for buffers that were never filled."""
    experts = np.stack([np.zeros((300, 2), int), np.random.default_rng(0).permuted(
        np.tile(np.arange(4), (300, 1)), axis=1)[:, :2]])  # fmt: skip
    labels = np.arange(300) % 3
    for part in (experts, np.concatenate([experts, experts[:1]])):
        found = measure_activations(labels=labels, experts=part, num_experts=4, **QUICK)
        assert [layer.layer for layer in found] == [1]
        names = "layer 0 every" if len(part) == 2 else "layers 0, 2 every"
        assert f"In {names} token has the same row" in found[0].warnings[0]
    twice = experts.copy()
    twice[0, 200:] = [1, 2]  # no placeholder, so its zeros are one expert twice
    with pytest.raises(ValueError, match="Token 0 of layer 0 was sent to expert 0 twice"):
        measure_activations(labels=labels, experts=twice, num_experts=4)
    (alone,) = measure_activations(np.tile([1.0, 0.0], (300, 1)), labels, **QUICK)
    assert alone.hard.values["collapse_worst"].value == 1
    assert "There are no other layers, so they are measured" in alone.warnings[0]


def test_probabilities_that_are_said_to_be_logits():
    logits, labels = soft_tokens()
    both = np.stack([logits, softmax(logits)])
    layer, _ = measure_activations(both, labels, from_logits=True, **QUICK)
    assert "In layer 1 all logits are between 0 and 1" in layer.warnings[0]
    layer, _ = measure_activations(np.stack([logits, logits**2]), labels, from_logits=True, **QUICK)
    assert not any("sum to 1" in text for text in layer.warnings)
    chosen = measure_activations(labels=labels, experts=logits.argmax(-1)[:, None], num_experts=9, **QUICK)
    assert not any("sum to 1" in text for text in chosen[0].warnings)


def test_labels_of_documents():
    gates, _ = draw_tokens(SPECIALISED, 300, seed=0)
    documents, names = np.arange(300) // 30, np.array(["verse", "code"])
    of_document = names[np.arange(10) % 2]
    found, expected = (
        measure_activations(gates, labels, documents=documents, **QUICK)
        for labels in (of_document, of_document[documents])
    )
    assert_same(found, expected)


def test_counts_of_documents_say_what_tokens_do():
    """All measures and chance levels need only sums over documents."""
    generator = np.random.default_rng(0)
    documents, of_document = np.arange(900) // 30, np.arange(30) % 3
    experts = generator.permuted(np.tile(np.arange(5), (2, 900, 1)), axis=2)[..., :2]
    counts = np.zeros((30, 2, 5))
    for document, of_layers in zip(documents, experts.transpose(1, 0, 2), strict=True):
        for place, chosen in enumerate(of_layers):
            counts[document, place, chosen] += 1
    names = np.array(["verse", "code", "law"])[of_document]
    found = measure_activations(counts=counts, labels=names, top_k=2, permutations=20)
    expected = measure_activations(
        labels=names, experts=experts, num_experts=5, documents=documents, permutations=20
    )
    for layer, other in zip(found, expected, strict=True):
        assert layer.label_names == other.label_names
        np.testing.assert_array_equal(layer.label_counts, other.label_counts)
        np.testing.assert_array_equal(layer.module_tokens, other.module_tokens)
        for row, same in zip(layer.to_rows(), other.to_rows(), strict=True):
            assert row == pytest.approx(same, nan_ok=True, abs=1e-6)
    assert "Counts of choices, 2 per token" in found[0].how
    (load, _) = measure_activations(counts=counts)
    assert load.hard.values["effective_experts"].value == pytest.approx(5, abs=0.01)
    for wrong, words in (
        ({"counts": counts[0, 0]}, r"counts have shape \(5,\); expected \[documents, layers, experts\]"),
        ({"counts": -counts}, "expected finite numbers of at least 0"),
        (
            {"counts": counts, "labels": names[:9]},
            r"expected \(30,\).*Counts have one label for each document",
        ),
        ({"counts": counts, "documents": [0]}, "do not apply to counts"),
    ):
        with pytest.raises(ValueError, match=words):
            measure_activations(**wrong)


def test_counts_of_half_a_token_are_not_rounded():
    """Three choices of two each are one and a half tokens, and p(module | label) sums to 1."""
    counts = np.zeros((40, 1, 6), int)
    counts[::2, :, :3] = counts[1::2, :, 3:] = 1
    (layer,) = measure_activations(counts=counts, labels=np.arange(40) % 2, top_k=2, permutations=20)
    np.testing.assert_allclose(layer.hard.activation, np.kron(np.eye(2), np.full(3, 1 / 3)))
    assert layer.hard.values["adjusted_mutual_information"].value == pytest.approx(1)
    np.testing.assert_array_equal(layer.label_counts, [30, 30])
    assert layer.dropped == 0
    for part in (counts[:1], counts[:11]):  # 1.5 and 16.5 tokens, each document with a label of its own
        (layer,) = measure_activations(counts=part, labels=np.arange(len(part)), top_k=2, permutations=0)
        np.testing.assert_allclose(layer.hard.activation.sum(axis=1), 1)
        assert layer.dropped == 0


def test_spans_keep_their_label_as_a_whole():
    """Two turns in a row of one speaker are one run by labels, and two by spans."""
    generator = np.random.default_rng(0)
    gates, documents = np.eye(3)[generator.integers(3, size=600)], np.arange(600) // 60
    spans = np.arange(600) // 10
    labels = generator.permutation(np.arange(60) % 2)[spans]
    sums = ActivationAccumulator()
    for part in (slice(0, 95), slice(95, 600)):  # in the middle of a span
        sums.update(gates[part], labels[part], documents[part], spans[part])
    kept = sums.tables[0].units
    kept.close()
    assert sum(len(label) for _, label, _ in kept.runs) == 60
    assert_same(
        sums.result(permutations=5),
        measure_activations(gates, labels, documents=documents, spans=spans, permutations=5),
    )
    with pytest.raises(ValueError, match="The label changes within span 0; expected spans with one label"):
        measure_activations(gates, np.arange(600) % 2, documents=documents, spans=spans)
    with pytest.raises(ValueError, match="spans need labels and documents"):
        measure_activations(gates, labels, spans=spans)
