"""The base class of every family's data."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from modtf.base.registry import resolve
from modtf.datasets import philox
from modtf.datasets.families import variations
from modtf.datasets.random import standard_normal
from modtf.tasks.condition import SETTINGS
from modtf.tasks.families import Family
from modtf.tasks.task import Task

Parameters = Mapping[str, Any]  # tensors by name


@dataclass(frozen=True)
class Uniforms:
    """The random numbers of G examples, in [0, 1).

    The numbers for rules and inputs are functions of (task, split, seed, step) and the place in the batch. In
    a finite set they differ between epochs.
    """

    rule: Any  # [G, N]
    inputs: Any  # [G, `num_uniforms`]
    limits: Any  # cumulated probabilities of rules [G, 1, R-1]; None if all are equal
    ops: Any
    key: Any
    dtype: str  # "float32" in training, else "float64"

    def at(self, index: Any, count: int, field: int = 0) -> Any:
        """Return numbers that an example keeps in every epoch: [G, count], functions of (task, split, seed,
        index).

        Args:
            index: integers [G].
            count: numbers for each.
            field: other fields have other numbers.
        """
        return philox.uniforms_at(self.ops, self.key, index, count, self.dtype, field)


class RuleData(ABC):
    """The data of a family: it makes and labels tokens of tasks of one shape. `Family.data` names the
    subclass.

    Two methods are enough if inputs are independent standard normal numbers: `parameters` and `outputs`.
    Otherwise override `num_uniforms` and `inputs`, too. If the number of examples is finite (`num_examples`),
    or inputs and rules depend on each other, `examples` makes everything in place of `inputs` and `outputs`.

    Methods compute with `self.ops`: functions with the names of `keras.ops`, and `gather`. They are
    TensorFlow's functions in tf.data (`modtf.datasets.host_ops`) and Keras's in a compiled program. A class
    that uses only these says `runs_on_device = True`, and an accelerator then makes its own data. A class
    that is written in TensorFlow leaves it false, and its data always come from the host.

    Axes: G examples, N tokens (no N axis if the family's `is_sequence` is false), F = its `token_width`.
    `Task.example_shapes` gives the shapes of inputs, rules and targets if they differ from these.

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
    #: whether members of one shape differ in `parameters` alone, so that what is compiled serves all of them
    members_share_programs: ClassVar[bool] = False
    #: whether "validation" and "test" differ in random numbers alone; not inherited by a subclass
    splits_share_programs: ClassVar[bool] = False
    #: option of `examples` -> its accepted values; an option whose default is True or False accepts these two
    choices: ClassVar[Mapping[str, Sequence[Any]]] = {}
    draws_rules: ClassVar[bool] = True  # whether `rule_probs` of a stream are the frequencies of its rules
    grey: bool = False  # whether the three channels of the inputs are equal
    ops: Any  # the stream or program that makes the data sets this and the next two
    split: str
    batch_size: int

    def __init__(self, tasks: Sequence[Task]):
        self.task = tasks[0]
        self.num_rules = self.task.num_rules
        drawn = [self.parameters(task) for task in tasks]
        if not isinstance(drawn[0], Mapping):
            raise ValueError(
                f"{type(self).__name__}.parameters(task) returned {drawn[0]!r}; expected a dict of arrays "
                "by name."
            )
        drawn = [{**own, **variations.parameters(task)} for own, task in zip(drawn, tasks, strict=True)]
        for name in drawn[0]:
            shapes = {np.shape(one[name]): task.data_seed for one, task in zip(drawn, tasks, strict=True)}
            if len(shapes) > 1:
                (shape, seed), (other, another), *_ = shapes.items()
                raise ValueError(
                    f"These {self.task.arch} tasks cannot share a stream: {name} has shape {shape} for data "
                    f"seed {seed}, and {other} for {another}. Make one stream per task."
                )
        self.stacked = {name: np.stack([d[name] for d in drawn]) for name in drawn[0]}

    @staticmethod
    @abstractmethod
    def parameters(task: Task) -> dict[str, np.ndarray]:
        """Draw the parameters of one task by name from `RandomState(task.data_seed)`.

        `outputs` gets floating-point numbers in its dtype, float32 or float64, and integers unchanged.
        """

    def outputs(self, parameters: Parameters, inputs: Any, rule: Any) -> Any:
        """Label tokens.

        Args:
            parameters: those of one task, as tensors.
            inputs: [G, (N,) F].
            rule: int32 [G, (N,)], from 0.

        Returns:
            y [G, (N,)], with a last axis if the family has a `target_width`, in the dtype of inputs and
            parameters (float32 or float64). In classification, y >= 0 is the label.
        """
        raise NotImplementedError

    def num_uniforms(self, num_tokens: int) -> int:
        """Return the number of uniform numbers that `inputs` uses per example. `num_tokens` is 1 without an N
        axis."""
        numbers = num_tokens * self.task.token_width
        return numbers + numbers % 2  # standard normal numbers come in pairs

    def inputs(self, uniforms: Any, num_tokens: int) -> Any:
        """Map uniform numbers in [0, 1), [G, num_uniforms], to inputs [G, (N,) F], of the same dtype."""
        width = self.task.token_width
        normal = standard_normal(self.ops, uniforms)[:, : num_tokens * width]
        return self.ops.reshape(normal, [-1, *self.task.example_shapes(num_tokens)["inputs"]])

    def examples(
        self,
        index: Any,
        uniforms: Uniforms,
        parameters: Parameters,
        *,
        scale: Any = None,
        zipf: float | None = None,
        pairs: str | None = None,
        support: str | None = None,
        noise: float | None = None,
    ) -> tuple[Any, Any, Any]:
        """Make G examples of one task.

        Args:
            index: integers [G]: an example's number in its stream for endless data; in a finite set, one of
                its `num_examples`, after the shuffle of the epoch.
            uniforms: random numbers.
            parameters: those of one task, and the `bank`, as tensors.
            scale: factor on the inputs; None for 1. A method that overrides this one may have other arguments
                in its place: the keyword arguments are the `options` of conditions. Arrays come as tensors.
            zipf, pairs, support, noise: in place of the task's options, see `modtf.tasks.families.varied`.

        Returns:
            Inputs, rules (integers from 0) and targets, with the shapes of `Task.example_shapes`.
        """
        variations.check_options(self.task, zipf=zipf, pairs=pairs, support=support, noise=noise)
        ops, num_tokens = self.ops, uniforms.rule.shape[1]
        shapes, kind = self.task.example_shapes(num_tokens), type(self).__name__
        uniforms = variations.stored(self, index, uniforms)
        rule, inputs = self.rules(uniforms, zipf, pairs), self.inputs(uniforms.inputs, num_tokens)
        check_shape(f"{kind}.inputs", inputs, [rule.shape[0], *shapes["inputs"]])
        inputs = variations.moved(self, parameters, inputs, rule, support)
        if scale is not None:
            inputs = inputs * ops.cast(scale, inputs.dtype)
        inputs = ops.cast(inputs, self.task.input_dtype)
        outputs = self.outputs(parameters, ops.cast(inputs, uniforms.inputs.dtype), rule)
        check_shape(f"{kind}.outputs", outputs, [rule.shape[0], *shapes["target"]])
        target = SETTINGS[self.task.setting].target(outputs)
        return inputs, rule, variations.noisy(self, index, uniforms, target, noise)

    def rules(self, uniforms: Uniforms, zipf: float | None = None, pairs: str | None = None) -> Any:
        """Return rules int32 [G, (N,)], with the stream's probabilities or those of the task."""
        rule = variations.rules(self, uniforms, zipf, pairs)
        return rule if self.task.is_sequence else rule[:, 0]

    def num_examples(self, split: str) -> int | None:
        """Return the size of a finite set; None for endless data."""
        return variations.option(self.task, "num_train") if split == "train" else None

    def index(self, position: Any, shuffled: Callable[[Any, Any, int], Any]) -> Any:
        """Return the examples of a finite set at positions of a stream. Each occurs once in every epoch.

        Args:
            position: integers [G]; batch `step` holds the B positions from step * B.
            shuffled: (place, epoch, n) -> [G], a permutation of 0 .. n-1 for each epoch. A set with parts of
                n examples may shuffle each part separately and take them in turn; batches are then
                stratified.
        """
        count = self.num_examples(self.split)
        assert count is not None  # called for finite sets only
        return shuffled(position % count, position // count, count)

    def bank(self) -> dict[str, np.ndarray]:
        """Return arrays that all tasks share, such as images, by names that differ from the parameters'
        names. They are neither stacked over members nor printed, and keep their dtype."""
        return {}


def check_data(task: Task) -> None:
    """Raise `ValueError` if the data of a task's family are not on this machine."""
    data = data_class(task.family)((task,))
    data.split = "train"
    data.bank()


def data_class(family: Family) -> type[RuleData]:
    """Import and return the class of a family's data. Raise `ValueError` if it is not a `RuleData`."""
    source = f"The data of the family {family.name!r}"
    try:
        data = resolve(family.data)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{source}, {family.data!r}, cannot be imported: {error}. "
            "Expected a subclass of modtf.datasets.families.base.RuleData, or 'package.module:Class'."
        ) from error
    if not (isinstance(data, type) and issubclass(data, RuleData)):
        raise ValueError(
            f"{source} must be a subclass of modtf.datasets.families.base.RuleData, received {data!r}."
        )
    lacking = sorted(data.__abstractmethods__)
    if all(getattr(data, name) is getattr(RuleData, name) for name in ("outputs", "examples")):
        lacking.append("outputs")
    if lacking:
        raise ValueError(
            f"{source}, {data.__name__}, do not define {', '.join(lacking)}. Define what RuleData documents."
        )
    return data


def check_shape(maker: str, made: Any, expected: Sequence[int]) -> None:
    """Raise `ValueError` if a method of a family's data returns another shape than the family declares."""
    shape = tuple(made.shape)
    if len(shape) != len(expected) or any(n not in (None, m) for n, m in zip(shape, expected, strict=True)):
        raise ValueError(f"{maker} returned the shape {shape}; expected {tuple(expected)}.")
