"""`tfds.load("modarch_vqa/...")`: names, splits and examples."""

import numpy as np
import pytest
import tensorflow_datasets as tfds

import modtf
from modtf.datasets.image_builder import side_by_side
from modtf.experiments.questions.family import question_of
from modtf.experiments.questions.modarch_vqa.modarch_vqa_dataset_builder import (
    CONFIGS,
    VQAConfig,
    find_config,
)

TASK = modtf.Task("vqa_mnist", question="comparison", data_seed=1)


def test_names():
    assert len(CONFIGS) == 4 * 6
    assert all(find_config(name).name == name == config.name for name, config in CONFIGS.items())
    config = find_config("spatial_r20_mnist_task7")
    assert (config.name, config.task.digits, config.task.data_seed) == ("spatial_r20_mnist_task7", "mnist", 7)
    with pytest.raises(ValueError, match=r"'comparison_r3' is not a configuration .* and rounds of 1, 2, 5"):
        find_config("comparison_r3")


def test_every_option_is_in_the_name():
    options = {"examples": 1_000_000, "digits": "mnist", "batches": "free", "data_seed": 7}
    tasks = [TASK.replace(**{"data_seed": 0, name: value}) for name, value in options.items()]
    names = [VQAConfig(task=task).name for task in (*tasks, TASK.replace(**options))]
    parts = ["_examples1e+06", "_mnist", "_free", "_task7"]
    assert names == [f"comparison_r2{part}" for part in (*parts, "".join(parts))]
    assert [find_config(name).task for name in names] == [*tasks, TASK.replace(**options)]
    sized = VQAConfig(task=tasks[0], num_validation=7, num_test=9)
    again = find_config("comparison_r2_examples1e+06_validation7_test9")
    assert (again.name, again.task, again.splits) == (sized.name, tasks[0], sized.splits)


@pytest.mark.parametrize("small_first", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_tasks_share_no_files(small_first, tmp_path):
    """Whichever is prepared first, each task has its own examples."""
    limit = tfds.download.DownloadConfig(max_examples_per_split=8)
    small = modtf.Task("vqa_mnist", question="comparison", examples=1_500)
    for task in (small, small.replace(examples=210_000))[:: 1 if small_first else -1]:
        builder = tfds.builder("modarch_vqa", task=task, data_dir=tmp_path)
        builder.download_and_prepare(download_config=limit)
        found = list(tfds.as_numpy(builder.as_dataset(split="test")))
        features, _ = next(iter(modtf.stream(task, 256, "test", condition="iid")))
        np.testing.assert_array_equal([example["inputs"] for example in found], features["inputs"][:8])


@pytest.mark.slow
def test_a_prepared_task_by_name_keeps_train(tmp_path):
    limit = tfds.download.DownloadConfig(max_examples_per_split=2)
    for _ in range(2):
        builder = tfds.builder("modarch_vqa/comparison_r2_task1", data_dir=tmp_path)
        builder.download_and_prepare(download_config=limit)
        assert list(builder.as_dataset()) == ["train", "validation", "test", "novel"]


@pytest.mark.parametrize(
    "name",
    ["comparison_r3", "comparison_r2_examples249", "comparison_r2_examples1e1e1", "comparison_r2_mlx",
     "comparison_r2_validation0_test9", "comparison_r2_task1_mnist"],
)  # fmt: skip
def test_what_is_no_name(name):
    assert name not in CONFIGS
    with pytest.raises(ValueError, match="is not a configuration of modarch_vqa"):
        find_config(name)


def test_splits_are_the_start_of_the_streams(tmp_path):
    config = VQAConfig(task=TASK, num_validation=7, num_test=9)
    assert config.name == "comparison_r2_task1_validation7_test9"
    for given in ({"name": f"modarch_vqa/{config.name}"}, {"name": "modarch_vqa", "config": config}):
        builder = tfds.builder(**given, data_dir=tmp_path)
        builder.download_and_prepare()
        assert list(builder.as_dataset()) == ["train", "validation", "test", "novel"]
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
    for supervised in (False, True):
        parts = builder.as_dataset(split=["train", "test"], as_supervised=supervised)
        assert parts[0].element_spec == parts[1].element_spec
    assert builder.info.features["target"].names == ["no", "yes"]
    assert builder.info.features["rule"].feature.names == [*question_of(TASK).sub_tasks]
    again = tfds.builder_from_directory(builder.data_dir)
    first = next(iter(tfds.as_numpy(again.as_dataset(split="novel"))))
    np.testing.assert_array_equal(first["inputs"], found[0]["inputs"])
    assert "<img" in tfds.as_dataframe(builder.as_dataset(split="test").take(1), builder.info)._repr_html_()


@pytest.mark.parametrize(("question", "shape"), [("comparison", (28, 56, 3)), ("spatial", (64, 64, 3))])
def test_examples_are_shown(question, shape, tmp_path):
    builder = tfds.builder("modarch_vqa", config=f"{question}_r2", data_dir=tmp_path)
    shown = builder.as_dataset(split="train").map(side_by_side)
    figure = tfds.show_examples(shown, builder.info, rows=1, cols=2)
    first = next(iter(tfds.as_numpy(shown)))
    assert figure.axes[0].get_xlabel() == f"{('no', 'yes')[first['target']]} ({first['target']})"
    assert figure.axes[0].images[0].get_array().shape == first["inputs"].shape == shape
