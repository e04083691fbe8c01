"""`tfds.load("modarch_languages/...")`: names, splits and documents."""

import numpy as np
import pytest
import tensorflow_datasets as tfds

import modtf
from modtf.experiments.languages.modarch_languages.modarch_languages_dataset_builder import (
    CONFIGS,
    LanguagesConfig,
    find_config,
)

TASK = modtf.Task("languages", law="classes", switches=1, languages=4, vocabulary=96, data_seed=2)


def test_names():
    assert len(CONFIGS) == 2 * 6
    assert all(find_config(name).name == name == config.name for name, config in CONFIGS.items())
    sized = LanguagesConfig(task=TASK, num_validation=7, num_test=9)
    assert sized.name == "classes_switches1_languages4_vocabulary96_task2_validation7_test9"
    found = find_config(sized.name)
    assert (found.name, found.task, found.splits) == (sized.name, TASK, sized.splits)
    with pytest.raises(ValueError, match=r"'rows_r8' is not a configuration .* such as rows_task0"):
        find_config("rows_r8")


@pytest.mark.slow
def test_documents_are_those_of_the_stream(tmp_path):
    builder = tfds.builder("modarch_languages/rows_task1", data_dir=tmp_path)
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(max_examples_per_split=4))
    splits = builder.as_dataset()
    assert list(splits) == ["train", "validation", "test", "test_long", "test_switching", "test_changed"]
    task = modtf.Task("languages", data_seed=1)
    for split, condition, length in (("test", "iid", 63), ("test_long", "long", 127)):
        features, target = next(iter(modtf.stream(task, 256, "test", condition=condition)))
        found = list(tfds.as_numpy(splits[split]))
        assert found[0]["inputs"].shape == (length,)
        for name, values in {**features, "target": target}.items():
            np.testing.assert_array_equal([one[name] for one in found], values[:4])
    assert next(iter(splits["train"]))["rule"].shape == (63,)
