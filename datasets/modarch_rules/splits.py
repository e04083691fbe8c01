"""What the finite splits of a task are, and how the endless `train` is told from them."""

import re
from dataclasses import dataclass
from typing import Any

from tensorflow_datasets.core.splits import ReadInstruction, SplitDict

from modtf.families import Condition
from modtf.task import Task

TRAIN = "train"

# The published evaluation averages 100 batches of 256 predictions. A sequence holds 3 to 30
# predictions and up to 23 kB, so fewer of them give the same precision for less disk.
NUM_VALIDATION = {"token": 10_000, "sequence": 2_560}
NUM_TEST = {"token": 25_600, "sequence": 5_120}


@dataclass(frozen=True)
class PreparedSplit:
    """One split on disk: the first `num_examples` of a `modtf.stream` with seed 0 under a condition."""

    name: str
    split: str  # "validation" or "test" of the stream
    num_examples: int
    num_tokens: int  # per example
    condition: Condition


def default_sizes(task: Task) -> tuple[int, int]:
    """Examples in `validation` and in every test split."""
    kind = "sequence" if task.is_sequence else "token"
    return NUM_VALIDATION[kind], NUM_TEST[kind]


def prepared_splits(task: Task, num_validation: int, num_test: int) -> dict[str, PreparedSplit]:
    """The finite splits of a task by name: `validation`, and a test split for every condition of its family.

    Example:
        >>> list(prepared_splits(Task(), 10, 10))
        ['validation', 'test', 'test_scale2']
    """
    family = task.family

    def prepared(split: str, condition: Condition, num_examples: int) -> PreparedSplit:
        num_tokens = condition.seq_len or family.num_training_tokens
        return PreparedSplit(condition.of(split), split, num_examples, num_tokens, condition)

    splits = [prepared("validation", family.conditions[0], num_validation)]
    splits += [prepared("test", condition, num_test) for condition in family.conditions]
    return {split.name: split for split in splits}


def is_train(split: Any) -> bool:
    """Whether `split` (a string or a `ReadInstruction`) is the endless `train`.

    Raises:
        ValueError: where it asks for a part of `train`, or joins it with something.
    """
    text = split if isinstance(split, str) else repr(split)
    if not re.search(r"(?<![\w-])train(?![\w-])", text):
        return False
    if split in (TRAIN, ReadInstruction(TRAIN)):
        return True
    raise ValueError(
        f"split={str(split)!r} asks for a part of 'train' or joins it with another split, but 'train' is an "
        "endless stream: it has no size to slice and no end to append to. Take as many examples as you need "
        "with tfds.load(..., split='train').take(n), or slice the finite splits 'validation' and 'test'."
    )


class FiniteSplits(SplitDict):
    """The split sizes in `info.splits`; explains why `train` is not among them."""

    def __getitem__(self, key: Any) -> Any:
        try:
            train = is_train(key)
        except ValueError as error:
            raise KeyError(str(error)) from None
        if train:
            raise KeyError(
                "'train' is an endless stream without size, shards or files, so info.splits lists the finite "
                "splits alone. Choose the steps of an epoch yourself: model.fit(train, steps_per_epoch=...)."
            )
        return super().__getitem__(key)
