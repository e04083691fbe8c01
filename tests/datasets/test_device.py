"""Batches from a compiled program equal those of the host's stream."""

import numpy as np
import pytest
import tensorflow as tf

from modtf.datasets.device import DeviceStream
from modtf.datasets.families.base import RuleData
from modtf.tasks.families import FAMILIES, with_free_rules
from modtf.tasks.task import Task

STEPS, FIRST, BATCH = 10, 60, 32  # crosses the border of a block of 64 steps, if a family has blocks


def made_by(make, count=STEPS, **options):
    features, target = make(tf.constant(FIRST), count, **options)
    return features["inputs"].numpy(), features["rule"].numpy(), target.numpy()


def compiled(stream):
    return tf.function(stream.make, jit_compile=True, autograph=False)


def assert_equal_but_for_last_bits(found, expected, setting):
    """Targets may differ if rounding decides between classes or between two keys."""
    inputs, rule, target = [*map(np.stack, zip(*expected, strict=True))]
    np.testing.assert_allclose(found[0], inputs, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(found[1], rule)
    if setting == "classification":
        assert (found[2] != target).mean() < 1e-3
    else:
        off = np.abs(found[2] - target) > 1e-6 * max(1.0, np.abs(target).max())
        assert off.mean() < 1e-3


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        pytest.param(arch, options, marks=[pytest.mark.slow] * (arch != "mlp"), id=f"{arch}{options}")
        for arch in with_free_rules()
        for options in ([{"search": "v1"}, {"search": "v2"}] if arch == "mha" else [{}])
    ],
)
def test_training_data(arch, options, draw):
    tasks, seeds = [Task(arch, num_rules=5, data_seed=d, **options) for d in (0, 3)], [4, 5]
    stream = DeviceStream(tasks, BATCH, seed=seeds)
    expected = draw(tasks, STEPS, batch_size=BATCH, seed=seeds, start_step=FIRST)
    assert_equal_but_for_last_bits(made_by(compiled(stream)), expected, tasks[0].setting)


def test_test_data_under_a_condition(draw):
    """Computed in float64, as on the host: scaled, with another length and two rule distributions."""
    task = Task("rnn", "classification", num_rules=3)
    options = {"seq_len": 4, "scale": 2.0, "rule_probs": [[0.2, 0.3, 0.5], [0.8, 0.1, 0.1]]}
    stream = DeviceStream(task, 7, "test", 9, **options)
    expected = draw(task, 3, split="test", batch_size=7, seed=9, start_step=FIRST, **options)
    found = made_by(compiled(stream), count=3)
    assert_equal_but_for_last_bits(found, expected, task.setting)
    assert np.mean(found[0] != np.stack([inputs for inputs, _, _ in expected])) < 1e-6


def test_one_member_and_the_numbers_of_another_stream():
    tasks, seeds = [Task(data_seed=d) for d in (0, 1)], [0, 7]
    stream, other = DeviceStream(tasks, 8, seed=seeds), DeviceStream(tasks, 8, seed=[3, 4])
    whole, second = made_by(stream.make, 2), made_by(stream.make, 2, member=tf.constant(1))
    for all_members, one in zip(whole, second, strict=True):
        assert one.shape[2] == 1
        np.testing.assert_array_equal(all_members[:, :, 1:], one)
    np.testing.assert_array_equal(made_by(stream.make, 2, given=other.given)[0], made_by(other.make, 2)[0])


def test_a_family_written_for_the_host_is_refused(registered):
    class OnHost(RuleData):
        @staticmethod
        def parameters(task):
            return {"gain": np.ones(task.num_rules)}

        def outputs(self, parameters, inputs, rule):
            return tf.reduce_sum(inputs, axis=-1)

    family = type("Toy", (type(FAMILIES["mlp"]),), {"data": OnHost})
    with pytest.raises(ValueError, match=r"'toy' cannot be made on a device, because OnHost .* data='host'"):
        DeviceStream(Task(registered(family)), 8)
