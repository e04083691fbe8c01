"""`tfds.load("modarch_vqa/...")`: names, splits and examples."""

import numpy as np
import pytest
import tensorflow_datasets as tfds

import modtf
from modtf.datasets.modarch_vqa.modarch_vqa_dataset_builder import CONFIGS, VQAConfig, find_config

TASK = modtf.Task("vqa_mnist", question="comparison", data_seed=1)


def test_names():
    assert len(CONFIGS) == 4 * 6
    assert all(find_config(name).name == name == config.name for name, config in CONFIGS.items())
    config = find_config("spatial_r20_mnist_task7")
    assert (config.name, config.task.digits, config.task.data_seed) == ("spatial_r20_mnist_task7", "mnist", 7)
    with pytest.raises(ValueError, match=r"'comparison_r3' is no configuration .*; rounds of 1, 2, 5"):
        find_config("comparison_r3")


def test_splits_are_the_start_of_the_streams(tmp_path):
    config = VQAConfig(task=TASK, num_validation=7, num_test=9)
    assert config.name == "comparison_r2_task1_validation7_test9"
    builder = tfds.builder("modarch_vqa", config=config, data_dir=tmp_path)
    builder.download_and_prepare()
    assert "D'Amario" in builder.info.citation
    assert {name: split.num_examples for name, split in builder.info.splits.items()} == {
        "validation": 7,
        "test": 9,
        "novel": 9,
    }
    for split, condition in (("test", "iid"), ("novel", "novel")):
        found = list(tfds.as_numpy(builder.as_dataset(split=split)))
        features, target = next(iter(modtf.stream(TASK, 256, "test", condition=condition)))
        np.testing.assert_array_equal([example["inputs"] for example in found], features["inputs"][:9])
        np.testing.assert_array_equal([example["rule"] for example in found], features["rule"][:9])
        np.testing.assert_array_equal([example["target"] for example in found], target[:9])
    train = next(iter(builder.as_dataset(split="train", batch_size=12)))
    assert train["inputs"].shape == (12, 2, 28, 28, 3)
