"""Settings: the type of prediction and its loss and measures. It needs no TensorFlow."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from modtf.base.checks import check_choice, check_name
from modtf.base.registry import Registry


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
