"""The finite splits: their content, and typical uses in TFDS."""

import filecmp
import itertools
import pickle
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from modtf import Task, stream
from modtf.datasets.modarch_rules.configs import RulesConfig

COMPARED = {"validation", "test_scale2", "test_len3"}


def load(builder: tfds.core.DatasetBuilder, split: str) -> dict[str, np.ndarray]:
    """Return a whole split as arrays."""
    return {name: value.numpy() for name, value in builder.as_dataset(split=split, batch_size=-1).items()}


def other(builder: tfds.core.DatasetBuilder, folder: Path, **how) -> tfds.core.DatasetBuilder:
    """The same configuration in another folder."""
    which = {"config": builder.builder_config.name, "file_format": how.pop("file_format", None)}
    again = tfds.builder("modarch_rules", data_dir=folder, **which)
    again.download_and_prepare(download_config=tfds.download.DownloadConfig(**how))
    return again


@pytest.mark.parametrize(
    "fixture", ["mlp", *(pytest.param(arch, marks=pytest.mark.slow) for arch in ("mha", "rnn"))]
)
def test_splits_are_the_start_of_the_stream(fixture: str, request: pytest.FixtureRequest) -> None:
    builder = request.getfixturevalue(fixture)
    config, task = builder.builder_config, builder.builder_config.task
    names = {"validation", *(condition.of("test") for condition in task.family.conditions)}
    assert set(builder.info.splits) == names == set(config.splits)
    seen: set[bytes] = set()
    for name, split in config.splits.items():
        found = load(builder, name)
        assert builder.info.splits[name].num_examples == len(found["target"]) == split.num_examples
        if name in COMPARED:
            batches = stream(task, 256, split.split, **split.condition.stream_options()).unbatch()
            features, target = next(iter(batches.batch(split.num_examples)))
            np.testing.assert_equal(found, {k: v.numpy() for k, v in {**features, "target": target}.items()})
        rows = {example.tobytes() for example in found["inputs"]}
        assert not rows & seen, f"{name} overlaps another split"
        seen |= rows
    train, _ = next(iter(stream(task, 256)))
    assert not seen & {example.tobytes() for example in train["inputs"].numpy()}


def test_files_are_the_same_bytes_in_every_preparation(mlp, tmp_path: Path) -> None:
    again = other(mlp, tmp_path)
    names = sorted(path.name for path in Path(mlp.data_dir).iterdir())
    assert names == sorted(path.name for path in Path(again.data_dir).iterdir())
    assert not filecmp.cmpfiles(mlp.data_dir, again.data_dir, names, shallow=False)[1]


def test_shards_and_fewer_examples(mlp, tmp_path: Path) -> None:
    sharded = other(mlp, tmp_path / "a", num_shards=3)
    few = other(mlp, tmp_path / "b", max_examples_per_split=3)
    assert sharded.info.splits["validation"].shard_lengths == [100, 100, 100]
    np.testing.assert_array_equal(load(sharded, "validation")["target"], load(mlp, "validation")["target"])
    assert {split.num_examples for split in few.info.splits.values()} == {3}
    np.testing.assert_array_equal(load(few, "test")["target"], load(mlp, "test")["target"][:3])


def test_too_little_disk_space_is_said_before_writing(tmp_path: Path) -> None:
    huge = RulesConfig(task=Task(), num_test=10**15)
    with pytest.raises(OSError, match=r"needs .* PiB"):
        tfds.builder("modarch_rules", data_dir=tmp_path, config=huge).download_and_prepare()


def test_slices_lists_and_even_splits(mlp) -> None:
    everything = load(mlp, "validation")["target"]
    np.testing.assert_array_equal(load(mlp, "validation[:10%]")["target"], everything[:30])
    np.testing.assert_array_equal(load(mlp, "validation[-5:]")["target"], everything[-5:])
    validation, test = mlp.as_dataset(split=["validation", "test[:50%]"])
    assert (len(validation), len(test)) == (300, 20)
    assert len(mlp.as_dataset(split="validation+test")) == 340
    assert [len(part) for part in mlp.as_dataset(split=tfds.even_splits("test", 3))] == [14, 13, 13]
    assert len(mlp.as_dataset(split=tfds.core.ReadInstruction("test", to=7))) == 7
    assert mlp.info.splits["test[:10%]"].num_examples == 4
    with pytest.raises(ValueError, match="Unknown split 'tests'"):
        mlp.as_dataset(split="tests")
    by_name = mlp.as_dataset()
    assert list(by_name) == ["train", "validation", "test", "test_scale2"]
    assert len(by_name["test_scale2"]) == 40


def test_ways_to_read(mlp) -> None:
    features, target = next(iter(mlp.as_dataset(split="test", as_supervised=True, batch_size=8)))
    assert (features["inputs"].shape, features["rule"].dtype, target.shape) == ((8, 2), tf.int64, (8,))
    rows = [example["target"] for example in tfds.as_numpy(mlp.as_dataset(split="test", shuffle_files=True))]
    assert sorted(rows) == sorted(load(mlp, "test")["target"])
    only_rules = tfds.decode.PartialDecoding({"rule": True})
    assert list(mlp.as_dataset(split="test", decoders=only_rules).element_spec) == ["rule"]
    name, where = f"modarch_rules/{mlp.builder_config.name}", mlp.data_dir_root
    assert len(tfds.load(f"{name}:1.0.0", split="test", data_dir=where)) == 40  # without modtf
    assert len(tfds.load(name, split="test", data_dir=where, try_gcs=True)) == 40


def test_sequences_have_static_shapes(mha) -> None:
    assert mha.as_dataset(split="test").element_spec["inputs"].shape == (10, 18)
    assert mha.as_dataset(split="test_len30_scale2", batch_size=2).element_spec["rule"].shape == (None, 30)
    assert mha.as_dataset(split="test+test_len3").element_spec["inputs"].shape.as_list() == [None, 18]
    examples = tfds.as_numpy(mha.as_dataset(split="test_len3[:2]+test[:1]"))
    assert [len(example["target"]) for example in examples] == [3, 3, 10]


def test_info(mlp) -> None:
    info = mlp.info
    assert info.features["rule"].names == ["rule_0", "rule_1", "rule_2", "rule_3"]
    assert "Is a Modular Architecture Enough?" in info.citation
    assert info.homepage == "https://arxiv.org/abs/2206.02713"
    assert "Rule-based tasks" in info.description
    assert info.dataset_size > 0
    assert "num_examples=300" in repr(info)
    shapes = {name: np.shape(info.metadata[name]) for name in ("alpha", "beta")}
    assert shapes == {"alpha": (4,), "beta": (4,)}


def test_the_ground_truth_travels_with_the_data(mlp) -> None:
    """The reader is built from files alone, without modtf."""
    reader = tfds.builder_from_directory(mlp.data_dir)
    alpha, beta = (np.array(reader.info.metadata[name]) for name in ("alpha", "beta"))
    assert Task(**reader.info.metadata["task"]) == mlp.builder_config.task
    for example in itertools.islice(tfds.as_numpy(reader.as_dataset(split="test_scale2")), 10):
        rule, x = example["rule"], example["inputs"].astype(np.float64)
        np.testing.assert_allclose(example["target"], alpha[rule] * x[0] + beta[rule] * x[1], rtol=1e-6)


def test_random_access(mlp, tmp_path: Path) -> None:
    builder = other(mlp, tmp_path, file_format="array_record")
    sources = builder.as_data_source()
    sizes = {name: len(source) for name, source in sources.items()}
    assert sizes == {"validation": 300, "test": 40, "test_scale2": 40}
    for index, example in enumerate(tfds.as_numpy(mlp.as_dataset(split="test"))):
        np.testing.assert_equal(sources["test"][index], example)
    again = pickle.loads(pickle.dumps(sources["test"]))  # as data loaders of other frameworks do
    assert again[39]["target"] == sources["test"][39]["target"]
    assert len(builder.as_data_source(split="validation[:10%]")) == 30
    assert next(iter(builder.as_dataset(split="train", batch_size=3)))["rule"].shape == (3,)
    with pytest.raises(NotImplementedError, match="array_record"):
        mlp.as_data_source(split="test")


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


def test_the_ground_truth_of_networks_and_of_shifted_inputs(tmp_path):
    builder = tfds.builder("modarch_rules", task=Task(num_rules=3, form="network"), data_dir=tmp_path)
    first, offset, second = (np.array(builder.info.metadata[name]) for name in ("first", "offset", "second"))
    assert not {"alpha", "beta"} & builder.info.metadata.keys()
    features, target = next(iter(stream(builder.builder_config.task, 20)))
    x, rule = (features[name].numpy() for name in ("inputs", "rule"))
    hidden = np.tanh(np.einsum("tuf,tf->tu", first[rule], x) + offset[rule])
    np.testing.assert_allclose(target, (second[rule] * hidden).sum(axis=1), rtol=1e-4, atol=1e-5)
    builder = tfds.builder("modarch_rules", task=Task(num_rules=3, shift=1.0), data_dir=tmp_path)
    assert np.shape(builder.info.metadata["centre"]) == (3, 2)
