"""The fused models against the textbook form, values and gradients, in float64."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
import textbook

from modtf.models.architectures import ARCHITECTURES
from modtf.models.kernels.attention import attend
from modtf.models.build import build
from modtf.models.cells import CELLS
from modtf.models.routers import ROUTERS
from modtf.models.kernels.rows import LANES
from modtf.models.kernels.scan import can_scan
from modtf.task import Task

WIDTH = 5


def test_everything_has_a_textbook_form():
    assert set(textbook.ARCHITECTURES) == set(ARCHITECTURES), "write the new architecture in textbook.py"
    assert set(textbook.ROUTERS) == set(ROUTERS), "write the new router in textbook.py"
    assert set(textbook.CELLS) == set(CELLS), "write the new cell in textbook.py"


def compare(model, features, weights):
    """Values and gradients of a model and of its textbook form."""
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
    tasks = [task, task]
    model = build(tasks, variant, WIDTH, [0, 1], dtype="float64", **options)
    compare(model, *random_batch(tasks, batch=3, seq_len=3))


@pytest.mark.parametrize("cell", list(CELLS))
def test_a_batch_of_whole_vectors(cell, random_batch):
    """Where `modtf.models.kernels.rows.lane_sums` has partial sums."""
    tasks = [Task("rnn", num_rules=4)] * 2
    model = build(tasks, "modular", WIDTH, [0, 1], dtype="float64", cell=cell)
    compare(model, *random_batch(tasks, batch=2 * LANES, seq_len=3))


@pytest.mark.parametrize("cell", list(CELLS))
def test_recurrence_without_a_gradient_of_its_own(cell, variant, random_batch):
    """A cell that has `step` alone, in the loop of Keras."""
    tasks = [Task("rnn", num_rules=3)] * 2
    model = build(tasks, variant, WIDTH, [0, 1], dtype="float64", cell=cell)
    state = model.shared_state
    assert can_scan(state.cell, state.router)
    names = ("num_gates", "num_states", "step")
    state.cell = SimpleNamespace(**{name: getattr(CELLS[cell], name) for name in names})
    assert not can_scan(state.cell, state.router)
    compare(model, *random_batch(tasks, batch=3, seq_len=3))


def test_wide_model(random_batch):
    """Wider than its tokens, with heads and modules whose sums are made in pieces."""
    tasks = [Task("mha", num_rules=2)] * 2
    compare(build(tasks, "modular", 34, [0, 1], dtype="float64"), *random_batch(tasks, batch=3, seq_len=3))


def test_recurrence_compiled_for_any_batch(variant, random_batch):
    """One trace for all batch sizes, where shapes are not known before XLA compiles."""
    tasks = [Task("rnn", num_rules=3)] * 2
    model = build(tasks, variant, WIDTH, [0, 1], dtype="float64")
    features, _ = random_batch(tasks, batch=3)
    shapes = {k: tf.TensorSpec([None, *v.shape[1:]], v.dtype) for k, v in features.items()}

    @tf.function(input_signature=[shapes], jit_compile=True)
    def gradients(features):
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(model(features)["target"] ** 2)
        return tape.gradient(value, [v.value for v in model.trainable_variables])

    with tf.GradientTape() as tape:
        value = tf.reduce_sum(textbook.textbook(model, features)["target"] ** 2)
    expected = tape.gradient(value, [v.value for v in model.trainable_variables])
    for ours, other in zip(gradients(features), expected, strict=True):
        np.testing.assert_allclose(ours, tf.convert_to_tensor(other), rtol=1e-9, atol=1e-9)


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
