"""Finite sets: examples by index, in epochs; options of conditions as data; classes; calls of modules."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from modtf import Condition, Family, Population, Task, stream
from modtf.datasets import host_ops, philox
from modtf.datasets.device import DeviceStream
from modtf.datasets.families.base import RuleData
from modtf.datasets.random import shuffled
from modtf.evaluation.batches import alike, make_batches
from modtf.tasks.families.mlp import MLP

SIZES = {"train": 30, "validation": 7, "test": 23}


class Images(RuleData):
    """Image i is filled with i. Three corners add its stored value, its value per step, and the shift."""

    runs_on_device = True

    @staticmethod
    def parameters(task):
        return {"order": np.random.RandomState(task.data_seed).permutation(30)}

    def num_uniforms(self, num_tokens):
        return 1

    def num_examples(self, split):
        return SIZES[split]

    def bank(self):
        return {"images": np.arange(30, dtype=np.uint8)[:, None] * np.ones(4, np.uint8)}

    def examples(self, index, uniforms, parameters, *, shift=None):  # type: ignore[override]
        ops = self.ops
        image = ops.gather(parameters["images"], ops.gather(parameters["order"], ops.cast(index, "int32")))
        kept, zero = uniforms.at(index, 1), 0 * uniforms.inputs
        shift = zero if shift is None else zero + ops.cast(shift, zero.dtype)
        corners = ops.concatenate([kept, uniforms.inputs, shift, zero], axis=-1)
        inputs = ops.reshape(ops.cast(image, corners.dtype) + corners, [-1, 2, 2])
        return inputs, self.rules(uniforms), ops.cast(image[:, 0], "int32") % 5


class ImagesFamily(Family):
    title, data, architecture, settings = "Images", Images, "mlp", ("categorical",)
    training_length, inputs_by_token, target_by_token = 3, False, False
    conditions = (
        Condition("iid", "as in training", in_distribution=True),
        *(Condition(f"by{n}", f"plus {n}", options={"shift": np.array(n)}, group="by") for n in (1, 2, 3)),
    )
    groups, headline = ("by",), "by"
    published, quick = MLP.published, MLP.quick

    def token_shape(self, task):
        return (2, 2)

    def num_classes(self, task):
        return 5


@pytest.fixture
def task(registered):
    return Task(registered(ImagesFamily), "categorical", num_rules=4, data_seed=1)


def corners(batches):
    """Return the image, stored value, value per step and shift of the examples of batches."""
    inputs = np.concatenate([np.reshape(inputs, [-1, 4]) for inputs, _, _ in batches])
    image = np.round(inputs[:, 3]).astype(int)
    return image, *(inputs[:, :3] - image[:, None]).T


def test_an_epoch_is_a_permutation_and_an_example_keeps_what_is_its_own(task, draw):
    batches = draw(task, 30, batch_size=8)  # eight epochs
    image, kept, fresh, _ = corners(batches)
    epochs = image.reshape(8, 30)
    assert (np.sort(epochs) == np.arange(30)).all()
    assert len({tuple(epoch) for epoch in epochs}) == 8, "each in an order of its own"
    for i in range(30):
        assert np.ptp(kept[image == i]) < 1e-5
        assert len(np.unique(fresh[image == i])) == 8
    assert len(np.unique(kept[:30].round(4))) == 30
    np.testing.assert_array_equal(np.concatenate([target for _, _, target in batches]), image % 5)
    validation = corners(draw(task, 1, batch_size=7, split="validation"))
    assert not np.isin(validation[1].round(4), kept.round(4)).any(), "splits share no number"


def test_it_is_a_function_of_task_split_seed_and_step(task, draw):
    tasks, options = [task, *[task.replace(data_seed=2)] * 2], {"batch_size": 8, "split": "test"}
    straight = draw(tasks, 9, seed=[3, 4, 5], **options)
    resumed = draw(tasks, 4, seed=[3, 4, 5], start_step=5, **options)  # in the middle of an epoch
    alone = draw(tasks[1], 9, seed=4, **options)
    np.testing.assert_equal(straight[5:], resumed)
    second, other = ([tuple(array[:, m] for array in batch) for batch in straight] for m in (1, 2))
    np.testing.assert_equal(second, alone)
    assert not np.array_equal(corners(second)[0], corners(other)[0])


def test_shapes_and_types(task):
    features, target = stream([task, task], 6, seed=[0, 1]).element_spec
    assert features["inputs"] == tf.TensorSpec([6, 2, 2, 2], tf.float32)
    assert features["rule"] == tf.TensorSpec([6, 2, 3], tf.int32)
    assert target == tf.TensorSpec([6, 2], tf.int32)
    assert task.example_shapes(5) == {"inputs": (2, 2), "rule": (5,), "target": ()}


def test_conditions_of_one_shape_share_a_pipeline(task, draw):
    """Made on the host or on a device."""
    population, (plain, *shifted) = Population.of(task, 9), task.family.conditions
    assert alike(task.family.conditions) == [(plain,), tuple(shifted)]
    options = {"batch_size": 8, "split": "test", "seed": 9}
    by_name = [batch for one in shifted for batch in draw(task, 2, condition=one.name, **options)]
    for on_device in (False, True):
        source = make_batches(population, "target", 8, "test", tuple(shifted), on_device=on_device)
        make = tf.function(source.make, autograph=False) if on_device else lambda element: element
        with source.share(2) as iterator:
            made = [make(next(iterator))[0] for _ in by_name]
        for condition, features in zip(shifted, made[::2], strict=True):
            shift = corners([(features["inputs"], 0, 0)])[3]
            np.testing.assert_allclose(shift, condition.options["shift"], atol=1e-5)
        for features, (inputs, rule, _) in zip(made, by_name, strict=True):
            np.testing.assert_allclose(features["inputs"], inputs, atol=1e-5)
            np.testing.assert_array_equal(features["rule"], rule)


def test_options_that_there_are_not_are_refused(task):
    with pytest.raises(ValueError, match=r"Images\.examples, .* 'toy', received the options tilt: got an"):
        stream(task, options={"tilt": 1})
    with pytest.raises(ValueError, match="condition='by1' already sets scale, seq_len and options"):
        stream(task, condition="by1", scale=2.0)


def test_a_program_makes_the_same_examples(task, draw):
    made = tf.function(DeviceStream(task, 8).make, jit_compile=True, autograph=False)
    features, target = made(tf.constant(2), 3)
    for n, (inputs, rule, expected) in enumerate(draw(task, 3, batch_size=8, start_step=2)):
        np.testing.assert_allclose(features["inputs"][n], inputs, rtol=1e-6)
        np.testing.assert_array_equal(features["rule"][n], rule)
        np.testing.assert_array_equal(target[n], expected)


def test_parts_of_a_set_may_take_turns(registered, draw):
    """Stratified batches: the first example of each pair is from the first half of the set."""

    class Halves(Images):
        def index(self, position, shuffled):
            return shuffled(position // 2 % 15, position // 30, 15) + 15 * (position % 2)

        @staticmethod
        def parameters(task):
            return {"order": np.arange(30)}

    task = Task(registered(type("Toy", (ImagesFamily,), {"data": Halves})), "categorical")
    image, *_ = corners(draw(task, 15, batch_size=4))
    assert ((image >= 15) == np.arange(60) % 2).all()
    assert (np.sort(image.reshape(2, 30)) == np.arange(30)).all()


@settings(max_examples=25, deadline=None)
@given(count=st.integers(1, 3000), key=st.integers(-(2**63), 2**63 - 1), epoch=st.integers(0, 2**31))
def test_any_number_of_places_is_shuffled(count, key, epoch):
    place = tf.range(count, dtype=tf.int64)
    found = shuffled(host_ops, place, tf.fill([count], epoch), count, philox.words(key)).numpy()
    assert (np.sort(found) == np.arange(count)).all()
    if count > 1000:
        assert abs(np.corrcoef(found, place)[0, 1]) < 5 / np.sqrt(count)
        assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 5 / np.sqrt(count)
