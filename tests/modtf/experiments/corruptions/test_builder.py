"""`tfds.load("modarch_corruptions/...")`: names, and splits that are computed while they are read."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

import modtf
from modtf.datasets import base_images
from modtf.experiments.corruptions.conditions import DATASETS, order_of
from modtf.experiments.corruptions.modarch_corruptions.modarch_corruptions_dataset_builder import (
    CLASSES,
    CorruptionsConfig,
    find_config,
)


@pytest.fixture(autouse=True)
def images(monkeypatch):
    drawn = np.random.default_rng(0).integers(0, 256, [5000, 28, 28, 1]).astype(np.uint8)
    made = base_images.BaseImages(drawn, np.tile(np.arange(10), 500).astype(np.int32), 5000)
    monkeypatch.setattr(base_images, "load", lambda name: made)


@pytest.mark.parametrize("name", ["digits", "emnist_contrast0.2", "cifar10_lowest_task3", "digits_task7"])
def test_names(name):
    assert find_config(name).name == name
    assert CorruptionsConfig(task=find_config(name).task).name == name


@pytest.mark.parametrize("name", ["faces", "digits_contrast0.5", "digits_contrast0.2_lowest", "Digits"])
def test_what_is_no_name(name):
    with pytest.raises(
        ValueError, match=rf"^'{name}' is not a configuration of modarch_corruptions \(.*_lowest, and"
    ):
        find_config(name)


def test_conditions_are_made_on_request(tmp_path):
    task = modtf.Task("corruptions")
    found = tfds.load("modarch_corruptions/digits", split="co_gb_im", data_dir=tmp_path)
    assert not list(tmp_path.rglob("*.*"))
    rows = list(tfds.as_numpy(found))
    order = {"order": np.array([1, 2, 3, 0, 0, 0], np.int32)}  # not one of the 167
    features, target = next(iter(modtf.stream(task, 256, "test", options=order)))
    assert len(rows) == 500
    np.testing.assert_array_equal([row["inputs"] for row in rows[:256]], features["inputs"][:, 0])
    np.testing.assert_array_equal([row["target"] for row in rows[:256]], target[:, 0])
    assert {order_of(int(row["rule"])) for row in rows} == {("CO", "GB", "IM")}
    joined = tfds.load(
        "modarch_corruptions/digits",
        split="co_gb_im[300:310]+id[:5]",
        data_dir=tmp_path,
        as_supervised=True,
        batch_size=-1,
    )
    np.testing.assert_array_equal(joined[0][:10], [row["inputs"] for row in rows[300:310]])
    assert joined[1].shape == (15,)


def test_all_that_there_is(tmp_path):
    builder = tfds.builder("modarch_corruptions", data_dir=tmp_path)
    assert len(builder.info.splits) == 2 + 167
    assert {name: builder.info.splits[name].num_examples for name in ("validation", "test", "r90_sw")} == {
        "validation": 500, "test": 500, "r90_sw": 500,
    }  # fmt: skip
    assert "Mason" in builder.info.citation
    made = builder.as_dataset(split=["train", "validation"], batch_size=12)
    for part in made:
        element = next(iter(part))
        assert element["inputs"].shape == (12, 28, 28, 3)
        assert element["rule"].shape == element["target"].shape == (12,)
    found = next(iter(builder.as_dataset(split="gb_co_im", batch_size=256)))
    features, _ = next(iter(modtf.stream(modtf.Task("corruptions"), 256, "test", condition="gb_co_im")))
    np.testing.assert_array_equal(found["inputs"], features["inputs"][:, 0])
    assert (
        builder.as_dataset(split="id").element_spec["inputs"].dtype
        == builder.info.features["inputs"].np_dtype
    )
    figure = tfds.show_examples(builder.as_dataset(split="gb_co_im"), builder.info, rows=1, cols=1)
    assert figure.axes[0].get_xlabel() == f"{found['target'][0]} ({found['target'][0]})"
    context = tf.distribute.InputContext(num_input_pipelines=2, input_pipeline_id=1)
    part = builder.as_dataset(split="id[:10]", read_config=tfds.ReadConfig(input_context=context))
    assert len(list(part)) == 5
    with pytest.raises(ValueError, match="decoders applies to examples that are read from files"):
        builder.as_dataset(split="id", decoders={"inputs": tfds.decode.SkipDecoding()})
    with pytest.raises(ValueError, match=r"^split='gb_gb' is not valid .*such as co_gb_im"):
        builder.as_dataset(split="gb_gb")


def test_classes_have_names(tmp_path):
    assert {name: len(CLASSES[name]) for name in DATASETS} == {k: v.classes for k, v in DATASETS.items()}
    target = tfds.builder("modarch_corruptions", data_dir=tmp_path).info.features["target"]
    assert (target.num_classes, target.int2str(7)) == (10, "7")
