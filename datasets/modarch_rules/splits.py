"""What the finite splits of a task are."""

import math
from dataclasses import dataclass

import numpy as np

from modtf.families import Condition
from modtf.task import Task

BATCH_SIZE = 256  # of the stream the examples come from; another size gives other examples
FRAME = 60  # bytes, of names and of the file format

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
        num_tokens = condition.seq_len or family.num_tokens(task)
        return PreparedSplit(condition.of(split), split, num_examples, num_tokens, condition)

    splits = [prepared("validation", family.conditions[0], num_validation)]
    splits += [prepared("test", condition, num_test) for condition in family.conditions]
    return {split.name: split for split in splits}


def split_bytes(task: Task, split: PreparedSplit, most: int | None = None) -> int:
    """About how large the files of a split, or of so many of its examples, are.

    Its numbers, rules in one byte, and what frames a record.
    """
    shapes = task.example_shapes(split.num_tokens)
    numbers = {name: math.prod(shape) for name, shape in shapes.items()}
    inputs = np.dtype(task.input_dtype).itemsize * numbers["inputs"]
    count = split.num_examples if most is None else min(most, split.num_examples)
    return count * (inputs + 4 * numbers["target"] + numbers["rule"] + FRAME)
