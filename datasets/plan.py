"""What a stream is, before anything is drawn: the same for host and device. No TensorFlow here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modtf.checks import check_choice, check_integer, is_number
from modtf.datasets.families.base import Parameters, RuleData, check_shape, data_class
from modtf.datasets.random import check_rule_probs, choose_rule
from modtf.memory import check_batches
from modtf.population import Population
from modtf.randomness import random_key
from modtf.task import SPLITS

NUMBERS_PER_BLOCK = 1 << 16  # random numbers a member draws at once: enough to hide the cost of a call
LARGEST_SCALE = float(np.finfo(np.float32).max)
LAST_STEP = 1 << 62  # in int64 the end of its block can still be counted
FIELDS = ("rule", "inputs")  # each has a key of its own


def rule_data(population: Population, ops: Any) -> RuleData:
    """What makes and labels the tokens of a population.

    Args:
        population: whose.
        ops: what it computes with, `host_ops` or `device_ops`.
    """
    data = data_class(population.family)(population.tasks)
    data.ops = ops
    return data


def check_start(start_step: int) -> int:
    """The first batch of a stream; raises `ValueError` unless it is a number of one."""
    if check_integer("start_step", start_step, 0) > LAST_STEP:
        raise ValueError(f"start_step={start_step} is not valid; expected at most {LAST_STEP}.")
    return int(start_step)


@dataclass(frozen=True)
class StreamPlan:
    """A stream's numbers come in blocks of some steps: of one block, and one field, a member has one seed."""

    population: Population
    data: RuleData
    batch_size: int  # B
    num_tokens: int  # N
    dtype: str  # in which data are made
    scale: float
    thresholds: np.ndarray | None  # [K, R-1], see `choose_rule`
    keys: np.ndarray  # int64 [P, 2], of the members' fields
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
    ) -> "StreamPlan":
        """Checks what `modtf.stream` is given.

        Raises:
            ValueError: on a value out of range, or a batch that cannot fit into memory.
        """
        family, data = population.family, rule_data(population, ops)
        check_choice("split", split, SPLITS)
        batch_size = check_integer("batch_size", batch_size, 1)
        if not is_number(scale) or not 0.0 < scale <= LARGEST_SCALE:
            raise ValueError(f"scale={scale!r} is not valid; expected a finite number above 0, in float32.")
        if seq_len is not None and not family.is_sequence:
            raise ValueError(f"seq_len={seq_len} has no meaning for arch={family.name!r}; leave it out.")
        num_tokens = family.num_training_tokens if seq_len is None else seq_len
        num_tokens = check_integer("seq_len", num_tokens, family.min_tokens)
        check_batches(population, batch_size, num_tokens)
        thresholds = None
        if rule_probs is not None:
            thresholds = np.cumsum(check_rule_probs(rule_probs, data.num_rules), axis=1)[:, :-1]
        length = ["length", num_tokens] if num_tokens != family.training_length else []
        purpose = [split, *length]
        keys = [[random_key(*member, *purpose, field) for field in FIELDS] for member in population.members]
        return cls(
            population,
            data,
            batch_size,
            num_tokens,
            "float32" if split == "train" else "float64",
            float(scale),
            thresholds,
            np.array(keys, np.int64),
            max(1, min(64, NUMBERS_PER_BLOCK // (batch_size * data.num_uniforms(num_tokens)))),
        )

    @property
    def width(self) -> int:
        """Uniform numbers that the inputs of an example consume."""
        return self.data.num_uniforms(self.num_tokens)

    def tokens(
        self, uniforms: tuple[Any, Any], limits: Any, parameters: Parameters, scale: Any
    ) -> tuple[Any, Any, Any]:
        """Makes and labels tokens of one member.

        Args:
            uniforms: of rules [G, N], and of inputs [G, width].
            limits: thresholds [G, 1, R-1], or None.
            parameters: its task's, in the plan's dtype.
            scale: factor on the inputs; None for 1.

        Returns:
            inputs [G, (N,) F], float32; rule [G, (N,)], int32; target [G, (N,) ...], float32.
        """
        task, data, ops = self.population.task, self.data, self.data.ops
        of_rule, of_inputs = uniforms
        tokens = [of_rule.shape[0], *([self.num_tokens] if task.is_sequence else [])]
        rule = ops.reshape(choose_rule(ops, of_rule, data.num_rules, limits), tokens)
        inputs = data.inputs(of_inputs, self.num_tokens)
        check_shape(f"{type(data).__name__}.inputs", inputs, [*tokens, task.token_width])
        if scale is not None:
            inputs = inputs * ops.cast(scale, inputs.dtype)
        inputs = ops.cast(inputs, "float32")
        outputs = data.outputs(parameters, ops.cast(inputs, of_inputs.dtype), rule)
        targets = tokens if task.target_width is None else [*tokens, task.target_width]
        check_shape(f"{type(data).__name__}.outputs", outputs, targets)
        if task.setting == "classification":
            outputs = outputs >= 0
        return inputs, rule, ops.cast(outputs, "float32")
