"""Tokens of routers whose activation matrix is known."""

from typing import Any

import numpy as np
import pytest

SPECIALISED = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.8, 0.1, 0.0], [0.2, 0.1, 0.6, 0.1]])
INDEPENDENT = np.tile([0.4, 0.3, 0.2, 0.1], (3, 1))
LABEL_PROBS = np.array([0.5, 0.3, 0.2])
QUICK: dict[str, Any] = {"permutations": 3, "groups": ["collapse"]}  # options of `measure_activations`


def draw_modules(rows, generator):
    """One-hot choices `[T, M]` with the probabilities of the rows."""
    levels = generator.random(len(rows))[:, np.newaxis]
    chosen = (rows.cumsum(axis=1) < levels).sum(axis=1).clip(max=rows.shape[1] - 1)
    return np.eye(rows.shape[1])[chosen]


def draw_tokens(A, num_tokens, seed, label_probs=LABEL_PROBS):
    """Independent tokens: one-hot gates `[T, M]` and labels `[T]`."""
    generator = np.random.default_rng(seed)
    labels = generator.choice(len(A), size=num_tokens, p=label_probs)
    return draw_modules(A[labels], generator), labels


def draw_documents(A, num_documents, length, seed, label_probs=LABEL_PROBS):
    """Draw documents of one label with module preferences: gates `[T, M]`, labels and documents `[T]`."""
    generator = np.random.default_rng(seed)
    labels = generator.choice(len(A), size=num_documents, p=label_probs)
    tastes = generator.gamma(np.maximum(3.0 * A[labels], 1e-9))
    tastes /= tastes.sum(axis=1, keepdims=True)
    documents = np.repeat(np.arange(num_documents), length)
    return draw_modules(tastes[documents], generator), labels[documents], documents


def soften(gates, seed, layers=1):
    """Return the same gates with half of the mass spread at random: `[layers, T, M]`."""
    generator = np.random.default_rng(seed)
    noise = generator.dirichlet(np.ones(gates.shape[1]), size=(layers, len(gates)))
    return 0.5 * gates + 0.5 * noise


def soft_tokens(num_tokens=300, num_modules=5, num_labels=3, seed=0, layers=()):
    generator = np.random.default_rng(seed)
    labels = generator.integers(num_labels, size=num_tokens)
    logits = generator.normal(size=(*layers, num_tokens, num_modules))
    logits[..., np.arange(num_tokens), labels] += 1.0
    return logits, labels


def softmax(logits):
    gates = np.exp(logits)
    return gates / gates.sum(axis=-1, keepdims=True)


def assert_same(some, others):
    """The same rows of all layers, where NaN equals NaN."""
    for layer, other in zip(some, others, strict=True):
        for row, expected in zip(layer.to_rows(), other.to_rows(), strict=True):
            assert row == pytest.approx(expected, nan_ok=True, abs=1e-6)
