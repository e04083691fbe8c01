"""Conditions, under which a trained model is tested, and settings: the type of prediction and its loss."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from modtf.base.checks import check_attributes, check_choice, check_integer, check_name, is_number
from modtf.base.registry import Registry

if TYPE_CHECKING:
    import numpy as np


IID = "iid"  # the condition of training, meant by names without a condition
#: conditions that results add: tokens with frequent and with rare rules. A family's own have other names
BY_FREQUENCY = ("frequent", "rare")
GAP = "gap"  # ends the name of a row, "loss_gap": the loss on test data less that on training data


@dataclass(frozen=True)
class Condition:
    """One way of testing a model.

    Its name is the same in results, tables, figures, TensorBoard, `modtf.evaluate` and TFDS splits.

    Args:
        options: passed to `RuleData.examples`, which makes the data. Arrays are passed as data: conditions
            whose arrays have the same names, shapes and types share one pipeline and one program.
        group: one of `Family.groups`; the results have a row with the group's mean.
        while_training: whether it is also measured during training, as "iid" always is.
        of_option: the option of tasks without which it has no meaning; tasks that set the option are measured
            under it by default. Used in `Family.more_conditions`.
        split: "train" for the member's training data, in place of the evaluation's split.

    Raises:
        ValueError: if the name cannot be part of a file's name, or another value is invalid.

    Example:
        >>> Condition("len30_scale2", "inputs x 2, 30 tokens", scale=2.0, seq_len=30).of("loss")
        'loss_len30_scale2'
    """

    name: str
    label: str  # the name for readers
    in_distribution: bool = False
    scale: float = 1.0  # factor on the inputs
    seq_len: int | None = None  # tokens per example; None for the training length
    options: Mapping[str, Any] | None = field(default=None, kw_only=True, compare=False)
    group: str | None = field(default=None, kw_only=True)
    while_training: bool = field(default=False, kw_only=True)
    of_option: str | None = field(default=None, kw_only=True)
    split: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_name("a condition", self.name)
        what = f"The condition {self.name!r}"
        check_attributes(what, self, label=str, in_distribution=bool, while_training=bool)
        if not is_number(self.scale) or not 0.0 < self.scale < float("inf"):
            raise ValueError(f"scale={self.scale!r} is not valid; expected a finite number above 0.")
        if self.seq_len is not None:
            object.__setattr__(self, "seq_len", check_integer("seq_len", self.seq_len, 1))
        check_choice("split", self.split, (None, "train"))
        if self.options is not None and not (
            isinstance(self.options, Mapping) and all(isinstance(name, str) for name in self.options)
        ):
            raise ValueError(f"options={self.options!r} is not valid; expected a dict of values by name.")
        for kind, name in (("a group of conditions", self.group), ("an option (of_option)", self.of_option)):
            if name is not None:
                check_name(kind, name)
        if taken := {self.name, self.group}.intersection((*BY_FREQUENCY, GAP)):
            raise ValueError(
                f"{what} has the name or group {taken.pop()!r}, under which results hold values of their "
                "own. Choose another name."
            )

    def stream_options(self) -> dict[str, Any]:
        """Return the condition as keyword arguments of `modtf.stream`."""
        options: dict[str, Any] = {} if self.scale == 1.0 else {"scale": self.scale}
        options |= {} if self.seq_len is None else {"seq_len": self.seq_len}
        return options | ({"options": self.options} if self.options else {})

    @property
    def arrays(self) -> "dict[str, np.ndarray]":
        """Return the options that are arrays or NumPy numbers, which are passed as data."""
        import numpy as np

        kinds = np.ndarray | np.generic
        return {name: np.asarray(v) for name, v in (self.options or {}).items() if isinstance(v, kinds)}

    @property
    def form_of_options(self) -> Hashable:
        """Return the key of a compiled program: names, shapes and types of arrays, and all other options."""
        forms = [(n, v.shape, v.dtype.str) for n, v in self.arrays.items()]
        return (*forms, *((n, repr(v)) for n, v in (self.options or {}).items() if n not in self.arrays))

    def of(self, what: str) -> str:
        """Return the name of a performance or a split under this condition: "loss", "loss_scale2", ..."""
        return what if self.name == IID else f"{what}_{self.name}"


def published_conditions(
    training_length: int | None = None, lengths: Sequence[int] = (), scales: Sequence[float] = (1.0, 2.0)
) -> tuple[Condition, ...]:
    """Return the published conditions, with that of training first: every length with every input scale.

    `training_length` is None if an example is one token. It must be one of the `lengths`, and 1 one of the
    `scales`.
    """
    conditions = []
    for length in (None, *(n for n in dict.fromkeys(lengths) if n != training_length)):
        for scale in scales:
            name, label = ([f"len{length}"], [f"{length} tokens"]) if length else ([], [])
            if scale != 1.0:
                name, label = [*name, f"scale{scale:g}"], [f"inputs x {scale:g}", *label]
            names = "_".join(name) or IID, ", ".join(label) or "as in training"
            conditions.append(Condition(*names, not name, scale, length))
    return tuple(conditions)


@dataclass(frozen=True)
class Setting:
    """One type of target: the loss that is minimised, and the measure of performance.

    `loss` and `error` are functions of (target, output) in `keras.ops`, or lazy references
    "package.module:function". They return a number for every target, and reduce an axis of the output that
    the target lacks (logits). An error is 0 or 1 for every target; results hold its mean in percent.

    Args:
        name: in flags, tasks and results.
        loss: the loss that training minimises.
        error: None if the setting has none.
        performance: the measure by which models are compared, "loss" or "error".
        output_width: maps a task to the model's numbers per target, None for one number without an axis;
            by default as many as the target has.
        target_dtype: the dtype of targets, "float32" or "int32".
        target: maps the output of a rule to the target, with the operations of any backend.

    Example:
        >>> SETTINGS["classification"].performance
        'error'
    """

    name: str
    loss: Any
    error: Any = None
    performance: str = "loss"
    output_width: Callable[[Any], int | None] = lambda task: task.target_width
    target_dtype: str = "float32"
    target: Callable[[Any], Any] = lambda output: output

    def __post_init__(self) -> None:
        check_name("a setting", self.name)
        known = ("loss",) if self.error is None else ("loss", "error")
        check_choice(f"The setting {self.name!r}: performance", self.performance, known)
        check_choice(f"The setting {self.name!r}: target_dtype", self.target_dtype, ("float32", "int32"))


SETTINGS: Registry[Setting] = Registry("setting")


_OF = "modtf.evaluation.elementwise"

for _setting in (
    Setting("regression", f"{_OF}:absolute_error"),
    Setting("classification", f"{_OF}:cross_entropy", f"{_OF}:misclassified", "error",
            target=lambda output: output >= 0),
    Setting("categorical", f"{_OF}:categorical_cross_entropy", f"{_OF}:wrong_class", "error",
            lambda task: task.family.num_classes(task), "int32"),
    Setting("distribution", f"{_OF}:divergence"),
):  # fmt: skip
    SETTINGS.add(_setting.name, _setting, str(_setting.loss))
