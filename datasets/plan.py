"""The plan of a stream before anything is drawn, the same for host and device. It needs no TensorFlow."""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modtf.base.checks import check_choice, check_integer, is_number
from modtf.datasets.families.base import Parameters, RuleData, Uniforms, check_shape, data_class
from modtf.datasets.random import check_rule_probs, shuffled
from modtf.tasks.memory import check_batches
from modtf.tasks.population import Population
from modtf.tasks.task import SPLITS, Task, random_key

NUMBERS_PER_BLOCK = 1 << 16  # random numbers per member and call: enough to hide the cost of a call
LARGEST_SCALE = float(np.finfo(np.float32).max)
#: fields with a key of their own: numbers of a step, numbers that an example keeps, and its place
STEP_FIELDS, INDEX_FIELDS = ("rule", "inputs"), ("example", "order")


@dataclass(frozen=True)
class StreamPlan:
    """The plan of a stream. Its numbers come in blocks of some steps; each member has one seed per block and
    field."""

    population: Population
    data: RuleData
    batch_size: int  # B
    num_tokens: int  # N
    dtype: str  # in which data are made
    options: dict[str, Any]  # of `RuleData.examples`
    thresholds: np.ndarray | None  # upper ends of the rules' shares of [0, 1] but the last, [K, R-1]
    keys: np.ndarray  # int64 [P, 4], of the members' fields
    steps: int  # per block; never depends on P

    @classmethod
    def of(
        cls,
        population: Population,
        ops: Any,
        batch_size: int,
        split: str = "train",
        *,
        scale: float = 1.0,
        seq_len: int | None = None,
        rule_probs: Sequence[float] | np.ndarray | None = None,
        condition: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> "StreamPlan":
        """Check the arguments of `modtf.stream`. `ops` makes the data, on the host or the device."""
        family, task = population.family, population.task
        check_choice("split", split, SPLITS)
        if condition is not None:
            if (scale, seq_len, options) != (1.0, None, None):
                raise ValueError(
                    f"condition={condition!r} already sets scale, seq_len and options. Leave them out."
                )
            named = task.condition(condition)
            scale, seq_len, options = named.scale, named.seq_len, named.options
            split = named.split or split
        check_integer("batch_size", batch_size, 1)
        if not is_number(scale) or not 0.0 < scale <= LARGEST_SCALE:
            raise ValueError(f"scale={scale!r} is not valid; expected a finite number above 0, in float32.")
        num_tokens = _num_tokens(task, seq_len)
        check_batches(population, batch_size, num_tokens)
        data = data_class(family)(population.tasks)
        data.ops, data.split = ops, split
        data.batch_size = batch_size = int(batch_size)
        thresholds = None
        if rule_probs is not None:
            if not data.draws_rules:
                raise ValueError(
                    f"rule_probs has no meaning for arch={family.name!r}, whose questions set the rules. "
                    "Leave it out."
                )
            thresholds = np.cumsum(check_rule_probs(rule_probs, data.num_rules), axis=1)[:, :-1]
        length = ["length", num_tokens] if num_tokens != family.training_length else []
        purposes = [(split, *length, f) for f in STEP_FIELDS] + [(split, f) for f in INDEX_FIELDS]
        keys = [[random_key(*member, *purpose) for purpose in purposes] for member in population.members]
        if not isinstance(options, Mapping | None):
            raise ValueError(f"options={options!r} is not valid; expected a dict of the data's options.")
        all_options = {**(options or {}), **({} if scale == 1.0 else {"scale": float(scale)})}
        _check_stream_options(data, family.name, all_options)
        steps = max(1, min(64, NUMBERS_PER_BLOCK // (batch_size * _numbers_per_example(data, num_tokens))))
        dtype, seeds = "float32" if split == "train" else "float64", np.array(keys, np.int64)
        return cls(population, data, batch_size, num_tokens, dtype, all_options, thresholds, seeds, steps)

    @property
    def width(self) -> int:
        """The number of uniform numbers that the inputs of an example consume."""
        return self.data.num_uniforms(self.num_tokens)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Return a key that is equal for plans that differ in members alone."""
        options = tuple(
            (name, repr(np.asarray(self.options[name]).tolist())) for name in sorted(self.options)
        )
        limits = None if self.thresholds is None else self.thresholds.tobytes()
        sizes = tuple((name, values.shape) for name, values in self.data.stacked.items())
        read = self.data.split, self.batch_size, self.num_tokens, options, limits
        return type(self.data), self.population.shape, sizes, read

    def make(
        self,
        position: Any,
        uniforms: tuple[Any, Any],
        limits: Any,
        keys: Any,
        parameters: Parameters,
        options: Mapping[str, Any],
    ) -> tuple[Any, Any, Any]:
        """Make inputs, rule and target of G examples of one member, in the task's types.

        Args:
            position: the positions in the stream, integers [G].
            uniforms: the numbers of rules [G, N], and of inputs [G, width].
            limits: thresholds [G, 1, R-1], or None.
            keys: the words of `INDEX_FIELDS`, uint32 [2, 2].
            parameters: the member's task's parameters, and the bank.
            options: those of `RuleData.examples`, as tensors.
        """
        task, data, ops = self.population.task, self.data, self.data.ops
        index = position
        if data.num_examples(data.split) is not None:
            index = data.index(position, lambda place, epoch, n: shuffled(ops, place, epoch, n, keys[1]))
        drawn = Uniforms(*uniforms, limits, ops, keys[0], self.dtype)
        made = data.examples(index, drawn, parameters, **options)
        shapes = task.example_shapes(self.num_tokens)
        for (name, shape), tensor in zip(shapes.items(), made, strict=True):
            check_shape(f"{type(data).__name__}.examples: {name}", tensor, [position.shape[0], *shape])
        types = task.input_dtype, "int32", task.target_dtype
        inputs, rule, target = map(ops.cast, made, types)
        return inputs, rule, target

    def parameters(self) -> dict[str, np.ndarray]:
        """Return the parameters of all members, [P, ...] by name; floating-point numbers have the data's
        dtype."""
        stacked = self.data.stacked.items()
        return {n: v.astype(self.dtype) if np.issubdtype(v.dtype, np.floating) else v for n, v in stacked}


def _num_tokens(task: Task, seq_len: int | None) -> int:
    """Return the number of tokens of an example. Raise `ValueError` for an invalid length."""
    family = task.family
    if seq_len is not None and not family.is_sequence:
        raise ValueError(f"seq_len={seq_len} has no meaning for arch={family.name!r}. Leave it out.")
    num_tokens = family.num_tokens(task) if seq_len is None else seq_len
    return check_integer("seq_len", num_tokens, family.min_tokens)


def _numbers_per_example(data: RuleData, num_tokens: int) -> int:
    """Return how many numbers an example takes in memory while it is made."""
    numbers = data.num_uniforms(num_tokens)
    if type(data).examples is RuleData.examples:
        return numbers
    return max(numbers, *map(math.prod, data.task.example_shapes(num_tokens).values()))


def _check_stream_options(data: RuleData, family: str, options: Mapping[str, Any]) -> None:
    """Raise `ValueError` for options, or values, that `RuleData.examples` does not have."""
    signature = inspect.signature(data.examples)
    try:
        signature.bind(None, None, None, **options)
    except TypeError as error:
        raise ValueError(
            f"{type(data).__name__}.examples, of the family {family!r}, received the options "
            f"{', '.join(options) or 'none'}: {error}. Give options that it accepts."
        ) from error
    truths = (name for name, one in signature.parameters.items() if isinstance(one.default, bool))
    values = {**dict.fromkeys(truths, (True, False)), **data.choices}
    for name in options.keys() & values.keys():
        check_choice(name, options[name], values[name])
