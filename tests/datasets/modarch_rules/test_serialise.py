"""Records written without TFDS's encoder are the records TFDS would write."""

import numpy as np
import pytest
import tensorflow as tf

from modtf.datasets.modarch_rules.info import record_layout, task_features
from modtf.task import Task


@pytest.mark.parametrize("num_rules", [2, 32, 128, 129, 20_000])
@pytest.mark.parametrize(("task", "num_tokens"), [(Task("mlp"), 1), (Task("rnn", target="state"), 3)])
def test_tfds_reads_what_was_written(task: Task, num_tokens: int, num_rules: int) -> None:
    task = task.replace(num_rules=num_rules)
    features = task_features(task, num_tokens)
    rng = np.random.default_rng(0)
    batch = {
        name: rng.integers(num_rules, size=(5, *info.shape))
        if name == "rule"
        else rng.standard_normal((5, *info.shape), np.float32)
        for name, info in features.get_tensor_info().items()
    }
    batch["rule"].flat[0] = num_rules - 1
    layout = record_layout(task, num_tokens)
    records = list(layout.records(batch))
    assert {len(record) for record in records} == {layout.num_bytes}
    for index, record in enumerate(records):
        example = {name: values[index] for name, values in batch.items()}
        for name, value in features.deserialize_example_np(record).items():
            np.testing.assert_array_equal(value, example[name])
        if num_rules <= 128:  # beyond, TFDS writes small rules in fewer bytes
            theirs = features.serialize_example(features.encode_example(example))
            assert tf.train.Example.FromString(record) == tf.train.Example.FromString(theirs)
            assert len(record) == len(theirs)
