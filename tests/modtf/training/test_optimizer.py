"""Optimizers against plain NumPy: scaling, clipping per member, Adam, SGD, decay, schedules."""

from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from modtf.tasks.protocol import Training
from modtf.training.optimizer import MemberAdam, MemberSGD, make_optimizer


def apply(optimizer, gradients, start):
    """One step from `start`; returns the new values."""
    variables = [keras.Variable(value) for value in start]
    optimizer.build(variables)
    for step in gradients:
        optimizer.apply([None if g is None else keras.ops.convert_to_tensor(g) for g in step], variables)
    return [v.numpy() for v in variables]


def adam(gradients, start, learning_rate, epsilon=1e-8):
    """Adam of one weight array over steps, with the epsilon before bias correction, as Keras has it."""
    value, m, v = start.astype(np.float64), 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        rate = learning_rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        value = value - rate * m / (np.sqrt(v) + epsilon)
    return value


@pytest.fixture
def numbers():
    """Two steps of gradients of two weights with 3 members, of very different sizes."""
    rng = np.random.default_rng(0)
    sizes = np.array([1e-3, 1.0, 1e3])
    shapes = [(3, 2, 4), (3, 5)]
    start = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    scale = [sizes.reshape(-1, *[1] * (len(shape) - 1)) for shape in shapes]
    gradients = [
        [(rng.standard_normal(shape) * s).astype(np.float32) for shape, s in zip(shapes, scale, strict=True)]
        for _ in range(2)
    ]
    return start, gradients


@pytest.mark.parametrize(("members", "clipnorm"), [(3, None), (3, 2.0), (1, 2.0)])
def test_it_is_adam_of_the_members_own_gradient_clipped_by_its_norm(numbers, members, clipnorm):
    """A model without members axis is one member, clipped over all its weights."""
    start, gradients = numbers
    found = apply(MemberAdam(0.1, num_members=members, member_clipnorm=clipnorm), gradients, start)
    own = [[members * g.astype(np.float64) for g in step] for step in gradients]
    for step in own if clipnorm else ():
        norm = np.sqrt(sum((g**2).reshape(members, -1).sum(1) for g in step))
        assert norm[-1] > clipnorm
        assert members == 1 or norm[0] < clipnorm
        factor = np.minimum(1.0, clipnorm / norm)
        step[:] = [g * factor.reshape(-1, *[1] * (g.ndim - 1)) for g in step]
    for i in range(2):
        expected = adam([step[i] for step in own], start[i], 0.1)
        np.testing.assert_allclose(found[i], expected, rtol=1e-4, atol=1e-5)


def test_a_weight_without_gradient_is_left_alone():
    start = [np.ones([2, 3], np.float32), np.ones([2], np.float32)]
    optimizer = MemberAdam(0.1, num_members=2, member_clipnorm=1.0)
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        found = apply(optimizer, [[np.ones([2, 3], np.float32), None]], start)
    assert np.all(found[0] < 1)
    np.testing.assert_array_equal(found[1], 1)


def test_config_round_trip():
    optimizer = MemberAdam(0.5, num_members=4, member_clipnorm=0.25)
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert isinstance(copy, MemberAdam)
    assert (copy.num_members, copy.member_clipnorm, copy.epsilon) == (4, 0.25, 1e-8)
    assert float(copy.learning_rate) == 0.5
    training = Training(steps=7, optimizer="sgd", momentum=0.5, schedule="cosine", weight_decay=0.1)
    made = make_optimizer(training, 2)
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(made))
    assert isinstance(copy, MemberSGD)
    assert (copy.momentum, copy.coupled_decay, copy.num_members) == (0.5, 0.1, 2)
    assert copy.get_config() == made.get_config()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_with_coupled_weight_decay_is_that_of_pytorch(momentum):
    """g = grad + decay w; buffer = momentum buffer + g; w -= rate buffer; the gradient is clipped before."""
    rng, rate, decay, clip = np.random.default_rng(1), 0.1, 0.05, 2.0
    w = rng.standard_normal((3, 4))
    gradients = rng.standard_normal((5, 3, 4)) * np.array([0.1, 1.0, 10.0])[:, None]
    training = Training(steps=5, learning_rate=rate, clipnorm=clip, weight_decay=decay)
    optimizer = make_optimizer(replace(training, optimizer="sgd", momentum=momentum), 3)
    found = apply(optimizer, [[(g / 3).astype(np.float32)] for g in gradients], [w.astype(np.float32)])
    buffer = np.zeros_like(w)
    for g in gradients:
        clipped = g * np.minimum(1.0, clip / np.linalg.norm(g, axis=1, keepdims=True))
        buffer = momentum * buffer + clipped + decay * w
        w = w - rate * buffer
    np.testing.assert_allclose(found[0], w, rtol=1e-4, atol=1e-5)


def test_coupled_weight_decay_goes_through_adam():
    w, gradients = np.array([[1.0, -2.0]]), [np.array([[0.3, 0.1]]), np.array([[-0.2, 0.4]])]
    optimizer = make_optimizer(Training(steps=2, learning_rate=0.1, weight_decay=0.5), 1)
    found = apply(optimizer, [[g.astype(np.float32)] for g in gradients], [w.astype(np.float32)])
    after = adam([gradients[0] + 0.5 * w], w, 0.1)
    expected = adam([gradients[0] + 0.5 * w, gradients[1] + 0.5 * after], w, 0.1)
    np.testing.assert_allclose(found[0], expected, rtol=1e-4)


@pytest.mark.parametrize(("schedule", "held"), [("cosine", 1), ("cosine_epochs", 4)])
def test_the_cosine_schedules(schedule, held):
    """From the rate to 0 with the last step: rate / 2 (1 + cos(pi t / steps)), at t of the step, or as
    PyTorch's `CosineAnnealingLR` once an epoch, at that of the epoch's first."""
    training = Training(steps=8, learning_rate=0.4, schedule=schedule, optimizer="sgd", evaluations=2)
    optimizer = make_optimizer(training, 1)
    optimizer = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    w = apply(optimizer, [[np.ones(1, np.float32)]] * 8, [np.zeros(1, np.float32)])
    at = np.arange(8) // held * held
    np.testing.assert_allclose(w[0], -sum(0.2 * (1 + np.cos(np.pi * at / 8))), rtol=1e-5)
    assert float(optimizer.learning_rate) == 0.0


@pytest.mark.parametrize(("steps", "evaluations", "held"), [(1018, 10, 102), (10_007, 20, 501), (3, 20, 1)])
def test_the_rate_falls_as_often_as_asked_for_any_number_of_steps(steps, evaluations, held):
    training = Training(steps=steps, schedule="cosine_epochs", evaluations=evaluations)
    schedule: Any = make_optimizer(training, 1).schedule
    rates = [float(schedule(step)) for step in range(0, steps, max(1, held // 2))]
    assert schedule.held == held
    assert len(set(rates)) == min(steps, evaluations)


@pytest.mark.parametrize("clipnorm", [None, 1.0])
def test_the_gradient_of_an_embedding_is_as_good_as_a_dense_one(clipnorm):
    """TensorFlow gives the rows that were read, some of them twice."""
    rows, indices = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32), [0, 2, 0]
    dense = np.array([[6.0, 8.0], [0.0, 0.0], [3.0, 4.0]], np.float32)
    found = []
    for gradient in (tf.IndexedSlices(rows, indices, dense_shape=(3, 2)), tf.constant(dense)):
        table = keras.Variable(np.ones((3, 2), np.float32))
        optimizer = MemberAdam(0.1, member_clipnorm=clipnorm)
        optimizer.build([table])
        optimizer.apply([gradient], [table])
        found.append(table.numpy())
    np.testing.assert_array_equal(*found)
    assert (found[0][[0, 2]] != 1).all()
