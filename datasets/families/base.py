"""What the data of every family provide."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from modtf.datasets.random import standard_normal
from modtf.families import Family
from modtf.registry import resolve
from modtf.task import Task

Parameters = Mapping[str, Any]  # tensors by name


class RuleData(ABC):
    """Makes and labels the tokens of tasks of one shape. A family names its subclass as `Family.data`.

    Two methods are enough where inputs are independent standard normal numbers: `parameters` and `outputs`.
    Others override `num_uniforms` and `inputs` too.

    Methods compute with `self.ops`: functions by the names of `keras.ops`, and `gather`, which are
    TensorFlow's own in tf.data and Keras's in a compiled program (`modtf.datasets.device_ops` lists them).
    A class that does says `runs_on_device = True`: then an accelerator makes the data by itself. One that is
    written in TensorFlow alone leaves it false, and its data always come from the host.

    Axes: G examples, N tokens (no N axis where the family's `is_sequence` is false), F = its `token_width`.

    Args:
        tasks: the P tasks of a population; they differ in `data_seed` alone.

    Example:
        y = |gain_c| * sum of x, for a family of sequences with any token width:

        >>> class Gains(RuleData):
        ...     runs_on_device = True
        ...
        ...     @staticmethod
        ...     def parameters(task):
        ...         return {"gain": np.random.RandomState(task.data_seed).randn(task.num_rules)}
        ...
        ...     def outputs(self, parameters, inputs, rule):
        ...         gain = self.ops.abs(self.ops.gather(parameters["gain"], rule))
        ...         return gain * self.ops.sum(inputs, axis=-1)
    """

    runs_on_device: ClassVar[bool] = False
    ops: Any  # set by who makes the data

    def __init__(self, tasks: Sequence[Task]):
        self.task = tasks[0]
        self.num_rules = self.task.num_rules
        drawn = [self.parameters(task) for task in tasks]
        if not isinstance(drawn[0], Mapping):
            raise ValueError(
                f"{type(self).__name__}.parameters(task) returned {drawn[0]!r}, expected arrays by name."
            )
        self.stacked = {name: np.stack([d[name] for d in drawn]) for name in drawn[0]}

    @staticmethod
    @abstractmethod
    def parameters(task: Task) -> dict[str, np.ndarray]:
        """The parameters of one task by name, float64, drawn from `RandomState(task.data_seed)`."""

    @abstractmethod
    def outputs(self, parameters: Parameters, inputs: Any, rule: Any) -> Any:
        """Labels tokens.

        Args:
            parameters: those of one task, as tensors.
            inputs: [G, (N,) F].
            rule: int32 [G, (N,)], from 0.

        Returns:
            y [G, (N,)], with a last axis where the family has a `target_width`, in the dtype of inputs and
            parameters (float32 or float64). In classification, y >= 0 is the label.
        """

    def num_uniforms(self, num_tokens: int) -> int:
        """How many uniform numbers `inputs` consumes per example; `num_tokens` is 1 without an N axis."""
        numbers = num_tokens * self.task.token_width
        return numbers + numbers % 2  # standard normal numbers come in pairs

    def inputs(self, uniforms: Any, num_tokens: int) -> Any:
        """Uniform numbers in [0, 1), [G, num_uniforms] -> inputs [G, (N,) F], of the same dtype."""
        width = self.task.token_width
        normal = standard_normal(self.ops, uniforms)[:, : num_tokens * width]
        return self.ops.reshape(normal, [-1, *([num_tokens] if self.task.is_sequence else []), width])


def data_class(family: Family) -> type[RuleData]:
    """The class of a family's data, which is imported now.

    Raises:
        ValueError: where `Family.data` is no `RuleData`, or lacks a method.
    """
    whose = f"The data of the family {family.name!r}"
    try:
        found = resolve(family.data)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{whose}, {family.data!r}, cannot be imported: {error}. "
            "Expected a subclass of modtf.datasets.families.base.RuleData, or 'package.module:Class'."
        ) from error
    if not (isinstance(found, type) and issubclass(found, RuleData)):
        raise ValueError(
            f"{whose} must be a subclass of modtf.datasets.families.base.RuleData, received {found!r}."
        )
    if lacking := sorted(found.__abstractmethods__):
        raise ValueError(f"{whose}, {found.__name__}, lack {', '.join(lacking)}; see RuleData.")
    return found


def check_shape(maker: str, made: Any, expected: Sequence[int]) -> None:
    """Raises `ValueError` where a method of a family's data made another shape than the family says."""
    shape = tuple(made.shape)
    if len(shape) != len(expected) or any(n not in (None, m) for n, m in zip(shape, expected, strict=True)):
        raise ValueError(f"{maker} made the shape {shape}, expected {tuple(expected)}.")
