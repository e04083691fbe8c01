"""The options of `modtf.families.varied`, applied to data. At their defaults nothing is computed."""

from typing import Any

import numpy as np

from modtf.datasets.random import choose_rule
from modtf.families.varied import zipf
from modtf.task import Task


def option(task: Task, name: str) -> Any:
    """Return an option of a task; None if its family lacks it, or it has the default."""
    return task.named_options.get(name)


def rules(data: Any, uniforms: Any, exponent: float | None = None) -> Any:
    """Return rules int32 [G, N], drawn with the stream's frequencies, or else by Zipf's law.

    Args:
        data: a `RuleData`.
        uniforms: its `Uniforms`.
        exponent: of Zipf's law; that of the task by default.
    """
    limits, exponent = uniforms.limits, option(data.task, "zipf") if exponent is None else exponent
    if limits is None and exponent:
        limits = np.cumsum(zipf(data.num_rules, exponent))[:-1]
    return choose_rule(data.ops, uniforms.rule, data.num_rules, limits)
