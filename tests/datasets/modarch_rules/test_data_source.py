"""Random access to prepared splits."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds


@pytest.fixture(scope="module")
def sources(mlp, tmp_path_factory):
    return tfds.data_source(
        f"modarch_rules/{mlp.builder_config.name}",
        data_dir=tmp_path_factory.mktemp("array_record"),
        builder_kwargs={"file_format": "array_record"},
    )


def test_all_finite_splits(sources) -> None:
    assert {name: len(source) for name, source in sources.items()} == {
        "validation": 300, "test": 40, "test_scale2": 40,
    }  # fmt: skip


def test_examples_are_those_of_the_record_files(mlp, sources) -> None:
    for index, example in enumerate(tfds.as_numpy(mlp.as_dataset(split="test"))):
        found = sources["test"][index]
        assert set(found) == set(example)
        for name, value in example.items():
            np.testing.assert_array_equal(found[name], value)
    again = pickle.loads(pickle.dumps(sources["test"]))  # as data loaders of other frameworks do
    assert again[39]["target"] == sources["test"][39]["target"]


def test_slices(mlp, tmp_path: Path) -> None:
    builder = tfds.builder(
        "modarch_rules", config=mlp.builder_config.name, data_dir=tmp_path, file_format="array_record"
    )
    builder.download_and_prepare()
    assert len(builder.as_data_source(split="validation[:10%]")) == 30
    assert next(iter(builder.as_dataset(split="train", batch_size=3)))["rule"].shape == (3,)


def test_record_files_have_no_random_access(mlp) -> None:
    with pytest.raises(NotImplementedError, match="array_record"):
        mlp.as_data_source(split="test")
