"""What `builder.info` says of a task: features, parameters, citation."""

from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from modtf.datasets.modarch_rules.serialise import RecordLayout, float_field, integer_field
from modtf.datasets.modarch_rules.splits import FiniteSplits, PreparedSplit
from modtf.task import Task

HOMEPAGE = "https://arxiv.org/abs/2206.02713"
SUPERVISED_KEYS = ({"inputs": "inputs", "rule": "rule"}, "target")  # the elements of modtf.stream


def task_features(task: Task, seq_len: int | None = None) -> tfds.features.FeaturesDict:
    """The features of one example; without `seq_len`, a sequence has any length."""
    tokens = (seq_len,) if task.is_sequence else ()
    target = () if task.target_width is None else (task.target_width,)
    rule: Any = tfds.features.ClassLabel(names=[f"rule_{index}" for index in range(task.num_rules)])
    return tfds.features.FeaturesDict(
        {
            "inputs": tfds.features.Tensor(shape=(*tokens, task.token_width), dtype=np.float32),
            "rule": tfds.features.Sequence(rule, length=seq_len) if task.is_sequence else rule,
            "target": tfds.features.Tensor(shape=(*tokens, *target), dtype=np.float32),
        }
    )


def record_layout(task: Task, num_tokens: int) -> RecordLayout:
    """How an example with these features is written."""
    return RecordLayout(
        [
            float_field("inputs", num_tokens * task.token_width),
            integer_field("rule", num_tokens, task.num_rules - 1),
            float_field("target", num_tokens * (task.target_width or 1)),
        ]
    )


def split_bytes(task: Task, split: PreparedSplit) -> int:
    """Size of the records of a split, without the framing of the file format (16 bytes a TFRecord)."""
    return split.num_examples * record_layout(task, split.num_tokens).num_bytes


def task_metadata(task: Task) -> tfds.core.MetadataDict:
    """The task and the parameters of its rules as JSON: `Task(**metadata["task"])` is the task again."""
    from modtf.datasets.families.base import data_class  # sizes and names do without

    parameters = data_class(task.family).parameters(task)
    return tfds.core.MetadataDict(
        task=task.to_dict(), **{name: value.tolist() for name, value in parameters.items()}
    )


class RulesInfo(tfds.core.DatasetInfo):
    """`DatasetInfo` that explains why `info.splits["train"]` has no size."""

    @property
    def splits(self) -> FiniteSplits:
        return FiniteSplits(super().splits.values())

    def initialize_from_bucket(self) -> None:
        """Nothing: the bucket of TFDS holds none of these data, and looking leaves temporary folders."""


class OfLength(tfds.decode.PartialDecoding):
    """Decodes all features of sequences of one length, so that their shapes are known."""

    def __init__(self, task: Task, num_tokens: int):
        self._of_length = task_features(task, num_tokens)
        super().__init__(self._of_length)

    def extract_features(self, features: Any) -> tfds.features.FeaturesDict:
        return self._of_length
