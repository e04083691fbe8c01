"""Settings: what is predicted, and by what a model is judged. No TensorFlow here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from modtf.checks import check_choice, check_name
from modtf.registry import Registry


@dataclass(frozen=True)
class Setting:
    """One kind of target: which loss is minimised, and which measure says how well a model does.

    `loss` and `error` are functions of (target, output) in `keras.ops`, or lazy references
    "package.module:function" to them. They give a number for every target; where the output has an axis that
    the target lacks (logits), they reduce it. An error is a share, 0 or 1 for every target: results hold it
    in %.

    Args:
        name: in flags, tasks and results.
        loss: what training minimises.
        error: None where the setting has none.
        performance: the measure by which models are compared, "loss" or "error".
        output_width: of a task, the numbers that a model gives per target, None for one without an axis;
            by default as many as the target has.
        target_dtype: of targets, "float32" or "int32".
        target: of what a rule gives, in the operations of any backend.

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
):  # fmt: skip
    SETTINGS.add(_setting.name, _setting, str(_setting.loss))
