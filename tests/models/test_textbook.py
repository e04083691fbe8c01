"""The fused models against the textbook form, values and gradients, in float64."""

import numpy as np
import pytest
import tensorflow as tf
import textbook

from modtf.models.architectures import ARCHITECTURES
from modtf.models.attention import attend
from modtf.models.build import build
from modtf.models.cells import CELLS
from modtf.models.routers import ROUTERS
from modtf.task import Task

WIDTH = 5


def test_everything_has_a_textbook_form():
    assert set(textbook.ARCHITECTURES) == set(ARCHITECTURES), "write the new architecture in textbook.py"
    assert set(textbook.ROUTERS) == set(ROUTERS), "write the new router in textbook.py"
    assert set(textbook.CELLS) == set(CELLS), "write the new cell in textbook.py"


def compare(task, variant, width, random_batch, options):
    tasks = [task, task]
    model = build(tasks, variant, width, [0, 1], dtype="float64", **options)
    features, weights = random_batch(tasks, batch=3, seq_len=3)
    found, gradients = [], []
    for function in (model, lambda x: textbook.textbook(model, x)):
        with tf.GradientTape() as tape:
            outputs = function(features)
            value = tf.reduce_sum(weights * outputs["target"]) + tf.reduce_sum(outputs["activation"] ** 2)
        found.append(outputs)
        gradients.append(tape.gradient(value, [v.value for v in model.trainable_variables]))
    for name in ("target", "activation"):
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-9, atol=1e-9)
    for variable, fused, expected in zip(model.trainable_variables, *gradients, strict=True):
        assert expected is not None, variable.path
        expected = tf.convert_to_tensor(expected)
        np.testing.assert_allclose(fused, expected, rtol=1e-9, atol=1e-9, err_msg=variable.path)
        assert np.any(expected != 0), f"{variable.path} has no influence"


def test_values_and_gradients(kind, variant, random_batch):
    task, options = kind
    compare(task, variant, WIDTH, random_batch, options)


def test_wide_model(random_batch):
    """Wider than its tokens, with heads and modules whose sums are made in pieces."""
    compare(Task("mha", num_rules=2), "modular", 34, random_batch, {})


@pytest.mark.parametrize("width", [4, 32, 34])
def test_gradient_of_attention(width):
    """Heads summed in one piece and in several, against a softmax differentiated by TensorFlow."""
    rng = np.random.default_rng(0)
    query, key, value, weights = (tf.constant(rng.standard_normal([2, width, 3, 4])) for _ in range(4))

    def plain(query, key, value):
        scores = tf.einsum("gknb,gkmb->gbnm", query, key) / width**0.5 - 1e9 * tf.eye(3, dtype=tf.float64)
        return tf.einsum("gbnm,gkmb->gknb", tf.nn.softmax(scores), value)

    found = []
    for function in (attend, plain):
        with tf.GradientTape() as tape:
            tape.watch([query, key, value])
            attended = function(query, key, value)
            loss = tf.reduce_sum(weights * attended)
        found.append([attended, *tape.gradient(loss, [query, key, value])])
    for ours, expected in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)


def test_a_token_never_attends_to_itself():
    """Heads alone: the answer for a token must not change with its own key and value."""
    rng = np.random.default_rng(0)
    query, key, value = (rng.standard_normal([2, 3, 4, 5]) for _ in range(3))
    before = attend(*map(tf.constant, (query, key, value))).numpy()
    key[:, :, 1] += 1.0
    value[:, :, 1] -= 1.0
    after = attend(*map(tf.constant, (query, key, value))).numpy()
    np.testing.assert_allclose(after[:, :, 1], before[:, :, 1], rtol=1e-12)
    assert not np.allclose(after[:, :, 0], before[:, :, 0])
