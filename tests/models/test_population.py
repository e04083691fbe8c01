"""A member of a population trains exactly as it would alone: same data, same weights, clipping included."""

import numpy as np
import tensorflow as tf

from modtf.datasets.streaming import stream
from modtf.training.loss import SettingLoss
from modtf.models.build import build
from modtf.training.optimizer import MemberAdam
from modtf.task import Task

WIDTH, STEPS = 5, 30


def trained(tasks, variant, seeds, clipnorm, dtype, options):
    """Trains by hand in one compiled loop; returns the final weights."""
    first, num_members = (tasks, 1) if isinstance(tasks, Task) else (tasks[0], len(tasks))
    model = build(tasks, variant, WIDTH, seeds, dtype=dtype, **options)
    optimizer = MemberAdam(1e-2, num_members=num_members, member_clipnorm=clipnorm)
    optimizer.build(model.trainable_variables)
    loss = SettingLoss(first.setting, dtype=dtype)
    data = stream(tasks, 8, "train", seeds, seq_len=3 if first.is_sequence else None)

    @tf.function
    def step(features, target):
        with tf.GradientTape() as tape:
            value = loss(target, model(features, training=True)["target"])
        gradients = tape.gradient(value, [v.value for v in model.trainable_variables])
        optimizer.apply(gradients, model.trainable_variables)

    for element in data.take(STEPS):
        step(*element)
    return [v.numpy() for v in model.trainable_variables]


def compare(task, variant, dtype, tolerance, options, clipnorm=0.05):
    """Trains a population, and its second member alone."""
    tasks = [task, Task(**{**task.to_dict(), "data_seed": 3})]
    population = trained(tasks, variant, [0, 5], clipnorm, dtype, options)
    alone = trained(tasks[1], variant, 5, clipnorm, dtype, options)
    for both, single in zip(population, alone, strict=True):
        np.testing.assert_allclose(both[1], single[0], rtol=tolerance, atol=tolerance)
        assert not np.allclose(both[0], both[1])


def test_every_kind(kind):
    """`modular`, where everything is coupled; test_boundary.py compares the outputs of every variant."""
    task, options = kind
    compare(task, "modular", "float64", 1e-9, options)


def test_classification(arch):
    compare(Task(arch, "classification", 3), "modular_op", "float64", 1e-9, {})


def test_monolithic():
    compare(Task(num_rules=3), "monolithic", "float64", 1e-9, {})


def test_float32():
    compare(Task(num_rules=3), "modular", "float32", 1e-3, {})


def test_a_population_of_one_is_the_member_alone():
    task = Task(num_rules=3)
    listed = trained([task], "modular", [5], 0.05, "float32", {})
    alone = trained(task, "modular", 5, 0.05, "float32", {})
    for ours, single in zip(listed, alone, strict=True):
        np.testing.assert_array_equal(ours, single)
