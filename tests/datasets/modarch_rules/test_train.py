"""The endless `train`: the stream of modtf, nothing on disk, clear errors."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from modtf import Task, stream

NAME = "modarch_rules/mha_v2_regression_r2_task0"


@pytest.fixture
def empty(tmp_path: Path):
    yield tmp_path
    assert not list(tmp_path.iterdir()), "train wrote something"


def test_it_is_the_stream(empty: Path) -> None:
    task, options = Task("mha", search="v2"), {"split": "train", "download": False, "data_dir": empty}
    dataset = tfds.load(NAME, batch_size=7, as_supervised=True, **options)
    found, expected = (list(tfds.as_numpy(batches.take(3))) for batches in (dataset, stream(task, 7)))
    np.testing.assert_equal(found, expected)
    single = tfds.load(NAME, shuffle_files=True, **options)  # the batches of 256 one after the other
    features, target = next(iter(stream(task, 256)))
    batch = next(iter(single.batch(256)))
    np.testing.assert_array_equal(batch["inputs"], features["inputs"])
    np.testing.assert_array_equal(batch["target"], target)
    assert len(list(tfds.as_numpy(single.take(3)))) == 3
    for name, info in tfds.builder(NAME, data_dir=empty).info.features.get_tensor_info().items():
        assert single.element_spec[name].dtype == tf.as_dtype(info.dtype)
        assert tf.TensorShape(info.shape).is_compatible_with(single.element_spec[name].shape)


def test_seed(empty: Path) -> None:
    def first(**kwargs) -> np.ndarray:
        where = {"split": "train", "download": False, "data_dir": empty}
        dataset = tfds.load(NAME, **where, batch_size=4, as_dataset_kwargs=kwargs)
        return next(iter(dataset))["target"].numpy()

    np.testing.assert_array_equal(first(), first(seed=0))
    assert not np.array_equal(first(), first(seed=1))


def test_shards_of_a_distributed_job(empty: Path) -> None:
    builder = tfds.builder(NAME, data_dir=empty)
    whole = [x["target"].numpy() for x in builder.as_dataset(split="train", batch_size=2).take(4)]
    for index in range(2):
        config = tfds.ReadConfig(input_context=tf.distribute.InputContext(2, index, 2))
        part = builder.as_dataset(split="train", batch_size=2, read_config=config)
        found = [x["target"].numpy() for x in part.take(2)]
        np.testing.assert_array_equal(found, whole[index::2])


def test_a_part_of_train_is_refused(empty: Path) -> None:
    builder = tfds.builder(NAME, data_dir=empty)
    whole = builder.as_dataset(split=tfds.core.ReadInstruction("train"))
    assert whole.cardinality() == tf.data.INFINITE_CARDINALITY
    parts = ["train[:10]", "train[:10%]", "train+test", "test[:3]+train", tfds.even_splits("train", 2)]
    for split in [*parts, tfds.core.ReadInstruction("train", to=10)]:
        with pytest.raises(ValueError, match=r"endless stream.*take\(n\)"):
            builder.as_dataset(split=split)


def test_what_needs_an_end_says_so(empty: Path) -> None:
    builder = tfds.builder(NAME, data_dir=empty)
    with pytest.raises(TypeError, match="infinite"):
        len(builder.as_dataset(split="train"))
    with pytest.raises(ValueError, match=r"batch_size=-1.*finite split"):
        builder.as_dataset(split="train", batch_size=-1)
    with pytest.raises(ValueError, match="decoders applies"):
        builder.as_dataset(split="train", decoders={"rule": tfds.decode.SkipDecoding()})
    with pytest.raises(ValueError, match="add_tfds_id"):
        builder.as_dataset(split="train", read_config=tfds.ReadConfig(add_tfds_id=True))


def test_finite_splits_without_preparation(empty: Path) -> None:
    with pytest.raises(AssertionError, match="download_and_prepare"):
        tfds.load(NAME, split="test", download=False, data_dir=empty)
