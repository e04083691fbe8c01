"""A member of a population trains exactly as it would alone, clipping and penalties included."""

import numpy as np
import pytest
import tensorflow as tf

from modtf import Population, Task, build
from modtf.training.compile import SettingLoss
from modtf.training.optimizer import MemberAdam

WIDTH, STEPS = 5, 4


def optimizer(population, clipnorm):
    return MemberAdam(1e-2, num_members=len(population), member_clipnorm=clipnorm)


def trained(population, variant, batches, dtype="float64", clipnorm=0.05, **options):
    """Train by hand, batch after batch, and return the model."""
    model = build(population, variant, WIDTH, dtype=dtype, **options)
    loss, adam = SettingLoss(population.task.setting, dtype=dtype), optimizer(population, clipnorm)
    adam.build(model.trainable_variables)
    for features, target in batches:
        with tf.GradientTape() as tape:
            value = loss(target, model(features, training=True)["target"])
            value = tf.add_n([value, *(tf.cast(x, value.dtype) for x in model.losses)])
        gradients = tape.gradient(value, [v.value for v in model.trainable_variables])
        adam.apply(gradients, model.trainable_variables)
    return model


def weights(model):
    return [v.numpy() for v in model.trainable_variables]


@pytest.fixture
def compare(random_batch):
    """Train a population, and its second member alone, on the same data."""

    def run(task, variant, tolerance=1e-9, **options):
        tasks = [task, task.replace(data_seed=3)]
        batches = [random_batch(tasks, batch=8, seq_len=3, seed=seed) for seed in range(STEPS)]
        second = [({k: v[:, 1] for k, v in features.items()}, y[:, 1]) for features, y in batches]
        population = trained(Population.of(tasks, [0, 5]), variant, batches, **options)
        alone = trained(Population.of(tasks[1], 5), variant, second, **options)
        for both, single in zip(weights(population), weights(alone), strict=True):
            np.testing.assert_allclose(both[1], single[0], rtol=tolerance, atol=tolerance)
            assert not np.allclose(both[0], both[1])

    return run


def test_every_kind(kind, compare):
    """Uses `modular`, in which all parts interact; test_every_model.py compares all variants' outputs."""
    task, options = kind
    compare(task, "modular", **options)


def test_other_variants_and_precisions(compare):
    compare(Task(num_rules=3), "monolithic")
    compare(Task(num_rules=3), "modular", 1e-3, dtype="float32")


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant", ["plugin_even", "plugin_learned", "switch", "z_loss", "bias_balanced", "gumbel"]
)
def test_a_router_of_ones_own(arch, variant, plugins, compare):
    """With a penalty per member, and with weights, which the rnn applies step by step."""
    compare(Task(arch, num_rules=3), variant, router={"modules": 6})


@pytest.mark.parametrize("variant", ["plugin_even", "plugin_frugal"])
def test_penalties_are_added_to_the_loss(arch, variant, plugins, random_batch):
    """The penalty is the mean over members, like the loss."""
    tasks = [Task(arch, num_rules=3, data_seed=i) for i in range(2)]
    features, _ = random_batch(tasks, batch=8)
    model = build(tasks, variant, WIDTH, [0, 1], dtype="float64")
    p = np.moveaxis(model(features)["activation"].numpy(), [1, -1], [0, 1]).reshape([2, 3, -1])
    (added,) = model.losses
    penalty = model.router.penalty(p).numpy()
    assert penalty.shape == (2,)
    assert np.all(penalty > 0)
    np.testing.assert_allclose(added, penalty.mean(), rtol=1e-6)


def test_a_population_of_one_is_the_member_alone(random_batch):
    task = Task(num_rules=3)
    batches = [random_batch([task], batch=8, seed=seed) for seed in range(STEPS)]
    listed = trained(Population.of([task], [5]), "modular", batches, "float32")
    batches = [({k: v[:, 0] for k, v in features.items()}, y[:, 0]) for features, y in batches]
    alone = trained(Population.of(task, 5), "modular", batches, "float32")
    np.testing.assert_equal(weights(listed), weights(alone))
