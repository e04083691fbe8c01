"""Gates of low precision, logits, and the choice of the k largest."""

import ml_dtypes
import numpy as np
import pytest
from activation_strategies import FAST
from activation_tokens import QUICK, soft_tokens, softmax
from hypothesis import given
from hypothesis import strategies as st

from modtf.routing.measuring import measure_activations
from modtf.routing.measuring.damage import ONE_ASSUMED


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16])
def test_low_precision_gates(dtype):
    """Gates of a bfloat16 model do not sum to 1 exactly."""
    logits, labels = soft_tokens(num_modules=64)
    gates = softmax(logits)
    low = gates.astype(dtype)
    (found,), (expected,) = (measure_activations(g, labels, **QUICK) for g in (low, gates))
    np.testing.assert_allclose(found.mass.activation, expected.mass.activation, atol=1e-3)


@FAST
@given(seed=st.integers(0, 1000), top_k=st.integers(1, 6))
def test_logits_with_top_k(seed, top_k):
    """Softmax over the k largest logits alone, and 1/k at each of them, written out."""
    logits, labels = soft_tokens(num_tokens=40, num_modules=6, seed=seed)
    (layer,) = measure_activations(logits, labels, from_logits=True, top_k=top_k, **QUICK)
    mass, hard = np.zeros((2, *logits.shape))
    for token, row in enumerate(logits):
        chosen = sorted(range(6), key=lambda m: row[m])[-top_k:]
        mass[token, chosen] = np.exp(row[chosen]) / np.exp(row[chosen]).sum()
        hard[token, chosen] = 1 / top_k
    for view, tokens in zip(layer.views, (mass, hard), strict=True):
        expected = [tokens[labels == label].mean(axis=0) for label in layer.labels]
        np.testing.assert_allclose(view.activation, expected, atol=1e-12)
    np.testing.assert_array_equal(layer.module_tokens, (hard > 0).sum(axis=0))


def test_masked_logits_and_sparse_gates():
    logits, labels = soft_tokens(num_modules=3)
    masked = np.concatenate([logits, np.full((300, 1), -np.inf)], axis=1)
    (layer,) = measure_activations(masked, labels, from_logits=True, **QUICK)
    assert layer.mass.use[3] == 0
    assert np.isnan(layer.mass.top_label_share[3])
    (sparse,) = measure_activations(np.eye(3)[labels], labels, top_k=2, permutations=2)
    assert sparse.mass.values["alignment"].value == 0


@pytest.mark.parametrize("top_k", [2, 5])
def test_ties_go_to_the_first_module(top_k):
    """Rounded logits are often equal, also around the k-th place; a stable sort says which modules count."""
    logits = np.random.default_rng(0).integers(3, size=(300, 8)).astype(np.float32)
    (layer,) = measure_activations(logits, from_logits=True, top_k=top_k, permutations=0)
    chosen = np.argsort(-logits, axis=1, kind="stable")[:, :top_k]
    np.testing.assert_array_equal(layer.module_tokens, np.bincount(chosen.ravel(), minlength=8))


@pytest.mark.parametrize("kind", [np.uint16, np.int16, np.int64])
def test_integers_are_no_logits(kind):
    """They are the bits of bfloat16, or numbers of experts."""
    bits = soft_tokens(num_modules=4)[0].astype(ml_dtypes.bfloat16).view(np.uint16).astype(kind)
    with pytest.raises(ValueError, match=r"logits are of type u?int(16|64); expected floating-point numbers"):
        measure_activations(bits, from_logits=True, top_k=2)


def test_rows_of_padding_and_sigmoid_gates_are_reported():
    """Zeros in a buffer of logits are read as tokens of the first module; sigmoid gates are no logits."""
    logits, _ = soft_tokens(num_modules=4)
    padded = np.where(np.arange(len(logits))[:, np.newaxis] % 5 == 0, 0.0, logits)
    for values, words in (
        (padded, f"up to {len(logits) // 5} tokens have the same value for all experts, as padding"),
        (1 / (1 + np.exp(-logits)), "all logits are between 0 and 1: they look like probabilities"),
    ):
        (layer,) = measure_activations(values, from_logits=True, permutations=0)
        assert any(words in text for text in layer.warnings)
    (layer,) = measure_activations(logits, from_logits=True, permutations=0)
    assert not any("same value" in text or "between 0 and 1" in text for text in layer.warnings)


@pytest.mark.parametrize("from_logits", [False, True])
def test_without_top_k_one_expert_is_assumed(from_logits):
    logits, _ = soft_tokens(num_modules=4)
    gates = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    values = logits if from_logits else gates
    for top_k in (None, 1, 2):
        (layer,) = measure_activations(values, from_logits=from_logits, top_k=top_k, permutations=0)
        assert (ONE_ASSUMED in layer.warnings) == (top_k is None)
        assert ("one expert per token is assumed" in layer.how) == (top_k is None)
    chosen = np.eye(4)[gates.argmax(axis=1)]
    with np.errstate(divide="ignore"):
        values = np.log(chosen) if from_logits else chosen
    (layer,) = measure_activations(values, from_logits=from_logits, permutations=0)
    assert ONE_ASSUMED not in layer.warnings, "the gates show that there is one"
    assert "assumed" not in layer.how
