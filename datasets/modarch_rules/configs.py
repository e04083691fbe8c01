"""The configurations of `modarch_rules`: a grid over all families, any other task by its name, and the finite
splits.

Families define the possible parts of a name, so this module lists none.
"""

import contextlib
import dataclasses
import difflib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from tensorflow_datasets.core.splits import ReadInstruction

from modtf.base.checks import check_integer
from modtf.datasets.streaming import stream
from modtf.tasks.families import FAMILIES, Condition, Family, Option, with_free_rules
from modtf.tasks.task import Task

PUBLISHED_RULES = (2, 4, 8, 16, 32)
PUBLISHED_DATA_SEEDS = range(5)
NAME = re.compile(r"(?P<task>.+?)(_validation(?P<num_validation>\d{1,12})_test(?P<num_test>\d{1,12}))?")
NUMBER = r"(?:[-+.\de]+|inf)"
BATCH_SIZE = 256  # of the stream of the examples; another size gives other examples
FRAME = 60  # bytes per record, for names and the file format

# The published evaluation averages 100 batches of 256 predictions. A sequence holds 3 to 30 predictions and
# up to 23 kB, so fewer sequences give the same precision for less disk.
NUM_VALIDATION = {"token": 10_000, "sequence": 2_560}
NUM_TEST = {"token": 25_600, "sequence": 5_120}


@dataclasses.dataclass(frozen=True)
class PreparedSplit:
    """One split on disk: the first `num_examples` of a `modtf.stream` with seed 0 under a condition."""

    name: str
    split: str  # of the stream: "validation" or "test", or that of the condition
    num_examples: int
    num_tokens: int  # per example
    condition: Condition


@dataclasses.dataclass(eq=False)
class RulesConfig(tfds.core.BuilderConfig):
    """A task and the sizes of its finite splits. Its name follows from them.

    Args:
        task: any task.
        num_validation: examples in `validation`; 10,000 (one token each) or 2,560 (sequences) by default.
        num_test: examples in every test split; 25,600 (one token each) or 5,120 (sequences) by default.

    Example:
        >>> RulesConfig(task=Task(num_rules=3), num_validation=100, num_test=200).name
        'mlp_regression_r3_task0_validation100_test200'
    """

    name: str = dataclasses.field(init=False, default="")
    task: Task = dataclasses.field(default_factory=Task)
    num_validation: int | None = None
    num_test: int | None = None

    def __post_init__(self) -> None:
        kind = "sequence" if self.task.is_sequence else "token"
        sizes = NUM_VALIDATION[kind], NUM_TEST[kind]
        self.num_validation = sizes[0] if self.num_validation is None else self.num_validation
        self.num_test = sizes[1] if self.num_test is None else self.num_test
        check_integer("num_validation", self.num_validation, 1)
        check_integer("num_test", self.num_test, 1)
        self.name = self.task.name
        if (self.num_validation, self.num_test) != sizes:
            self.name += f"_validation{self.num_validation}_test{self.num_test}"
        self.description = (
            f"{self.task.kind} with {self.task.num_rules} rules, "
            f"parameters drawn from seed {self.task.data_seed}."
        )

    @property
    def splits(self) -> dict[str, PreparedSplit]:
        """The finite splits by name: `validation`, and a test split for every condition of the family."""
        family, sizes = self.task.family, {"validation": self.num_validation, "test": self.num_test}
        wanted = [("validation", family.conditions[0]), *(("test", each) for each in family.conditions)]
        splits = {}
        for split, condition in wanted:
            name, num_tokens = condition.of(split), condition.seq_len or family.num_tokens(self.task)
            read, size = condition.split or split, int(sizes[split] or 0)
            splits[name] = PreparedSplit(name, read, size, num_tokens, condition)
        return splits


def split_bytes(task: Task, split: PreparedSplit, most: int | None = None) -> int:
    """Return the approximate file size of a split, or of this many of its examples. It counts numbers, rules
    in one byte, and the frame of a record."""
    shapes = task.example_shapes(split.num_tokens)
    numbers = {name: math.prod(shape) for name, shape in shapes.items()}
    inputs = np.dtype(task.input_dtype).itemsize * numbers["inputs"]
    count = split.num_examples if most is None else min(most, split.num_examples)
    return count * (inputs + 4 * numbers["target"] + numbers["rule"] + FRAME)


@cache
def published_names(family: Family) -> list[str]:
    """Return the names of all published tasks: options with fixed names x settings x R x data seeds. Other
    options have their default."""
    named = {o.name: o.choices or (o.default,) for o in family.options if o.always_named}
    values = itertools.product(*named.values())
    grid = itertools.product(values, family.settings, PUBLISHED_RULES, PUBLISHED_DATA_SEEDS)
    names = []
    for chosen, setting, num_rules, data_seed in grid:
        options = dict(zip(named, chosen, strict=True))
        with contextlib.suppress(ValueError):
            names.append(Task(family.name, setting, num_rules, data_seed, **options).name)
    return names


def find_config(name: str) -> RulesConfig:
    """Return the configuration of a name, in the grid or not. Raise `ValueError` if no task has it."""
    config = CONFIGS.get(name)
    if config is not None:
        return config
    close = difflib.get_close_matches(name, CONFIGS, n=3) or [next(iter(CONFIGS))]
    kinds = dict.fromkeys(config.task.kind for config in CONFIGS.values())
    raise ValueError(
        f"{name!r} is not a configuration of modarch_rules. Expected the name of a task, such as "
        f"{', '.join(close)}. The form is KIND_rRULES_taskSEED: a kind of {', '.join(kinds)} or one with "
        "other options, at least 2 rules, and a seed of at least 0."
    )


class ConfigsByName(Mapping[str, RulesConfig]):
    """The grid over R of every family registered so far (modtf's own: 200). Other tasks are found, too."""

    def __iter__(self) -> Iterator[str]:
        return itertools.chain.from_iterable(map(published_names, with_free_rules().values()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> RulesConfig:
        match = NAME.fullmatch(name)
        if match is not None and (task := task_from_name(match["task"])) is not None:
            sizes = {key: int(match[key]) for key in ("num_validation", "num_test") if match[key]}
            with contextlib.suppress(ValueError):
                config = RulesConfig(task=task, **sizes)
                if config.name == name:
                    return config
        raise KeyError(name)


def task_from_name(name: str) -> Task | None:
    """Return the task with this `Task.name`, of any registered family; None if there is none."""
    for family in FAMILIES.values():
        match = name_pattern(family).fullmatch(name)
        if match is None:
            continue
        *texts, setting, num_rules, data_seed = match.groups()
        shown = zip(family.options, texts, strict=True)
        with contextlib.suppress(ValueError):
            options = {option.name: value_of(option, text) for option, text in shown if text is not None}
            task = Task(family.name, setting, int(num_rules), int(data_seed), **options)
            if task.name == name:
                return task
    return None


@cache
def name_pattern(family: Family) -> re.Pattern[str]:
    """Return the pattern FAMILY(_OPTION)..._SETTING_rRULES_taskSEED, with a group for each value."""
    options = "".join(f"(?:_({pattern_of(option)}))?" for option in family.options)
    settings = "|".join(map(re.escape, family.settings))
    return re.compile(rf"{re.escape(family.name)}{options}_({settings})_r(\d{{1,6}})_task(\d{{1,10}})")


def pattern_of(option: Option) -> str:
    """Return a pattern of the texts that `Option.show` gives."""
    if option.choices is None:
        return re.escape(option.name) + NUMBER
    return "|".join(re.escape(option.show(choice)) for choice in option.choices)


def value_of(option: Option, text: str) -> object:
    """Return the value that `Option.show` shows as `text`."""
    if option.choices is None:
        return float(text.removeprefix(option.name))
    return next(choice for choice in option.choices if option.show(choice) == text)


CONFIGS = ConfigsByName()


TRAIN = "train"


def is_train(split: Any) -> bool:
    """Return whether `split` is the endless `train`. Raise `ValueError` if it asks for a part of it."""
    if not re.search(r"(?<![\w-])train(?![\w-])", str(split)):
        return False
    if split in (TRAIN, ReadInstruction(TRAIN)):
        return True
    raise ValueError(
        f"split={str(split)!r} asks for a part of 'train', or joins it with another split. But 'train' is "
        "an endless stream, which cannot be sliced or extended. Take as many examples as you need with "
        "tfds.load(..., split='train').take(n), or slice the finite splits 'validation' and 'test'."
    )


def endless_train(
    task: Task,
    arrange: Callable[[Any, Any], dict[str, tf.Tensor]],
    supervised_keys: Any,
    batch_size: int | None = None,
    *,
    seed: int = 0,
    as_supervised: bool = False,
    decoders: Any = None,
    read_config: tfds.ReadConfig | None = None,
) -> tf.data.Dataset:
    """Return the training stream, with `arrange` applied to its elements, or its `supervised_keys`.

    Without a batch size it has single examples, those of the batches of 256 in their order. From
    `read_config`, `input_context` shards the stream, and `skip_prefetch` and `options` apply.
    """
    if batch_size == -1:
        raise ValueError(
            "batch_size=-1 asks for a whole split as one tensor, but 'train' is endless. Name a finite split "
            "(split='validation', 'test', ...), or take as much as you need: "
            "next(iter(tfds.load(..., split='train', batch_size=n)))."
        )
    read_config = read_config or tfds.ReadConfig()
    dataset = stream(task, BATCH_SIZE if batch_size is None else batch_size, TRAIN, seed)
    dataset = dataset.map(arrange)
    if as_supervised:
        dataset = dataset.map(lambda element: chosen(element, supervised_keys))
    dataset = read_as(dataset.unbatch() if batch_size is None else dataset, decoders, read_config)
    return dataset if read_config.skip_prefetch else dataset.prefetch(tf.data.AUTOTUNE)


def arranged(features: dict[str, tf.Tensor], target: tf.Tensor) -> dict[str, tf.Tensor]:
    """Return an element of `modtf.stream` in the structure of TFDS."""
    return {"inputs": features["inputs"], "rule": tf.cast(features["rule"], tf.int64), "target": target}


def chosen(element: dict[str, tf.Tensor], keys: Any) -> Any:
    """Return the parts of an element in the structure of their names."""
    return tf.nest.map_structure(lambda key: element[key], keys)


def read_as(dataset: tf.data.Dataset, decoders: Any, read_config: tfds.ReadConfig) -> tf.data.Dataset:
    """Apply the part and the options that a `tfds.ReadConfig` asks for."""
    for name, value in (("decoders", decoders), ("read_config.add_tfds_id", read_config.add_tfds_id)):
        if value:
            raise ValueError(
                f"{name} applies to examples that are read from files, but this split is generated on the "
                "fly. Leave it out, or choose a prepared split."
            )
    context = read_config.input_context
    if context is not None and context.num_input_pipelines > 1:
        dataset = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
    return dataset if read_config.options is None else dataset.with_options(read_config.options)
