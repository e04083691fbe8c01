"""The default trainer, `plain`, and warm starts of the router by name."""

from collections.abc import Callable

import keras

from modtf.base.checks import check_choice, check_integer
from modtf.base.registry import Registry
from modtf.tasks.task import Task
from modtf.training.trainer import TrainerContext, checked_by

#: how the router starts -> a function of (context, steps) that fits it before training
STARTS: Registry[Callable[[TrainerContext, int], None]] = Registry("start")


def check_start(start: str, start_steps: int) -> None:
    """Raise `ValueError` on an unknown start, or an invalid number of steps."""
    check_choice("start", start, ("none", *STARTS))
    check_integer("start_steps", start_steps, 0)


def _check_startable(model: keras.Model, task: Task, start: str, start_steps: int) -> None:
    """Raise `ValueError` if a start has a `check_model(model, task, start)` that rejects the model."""
    if start != "none" and start_steps and (check := getattr(STARTS[start], "check_model", None)):
        check(model, task, start)


@checked_by(check_start, needs={"start_steps": "start"}, check_model=_check_startable)
def plain(context: TrainerContext, start: str = "none", start_steps: int = 1000) -> None:
    """Train on the "train" stream for the steps of the protocol: the default trainer.

    Args:
        context: the training.
        start: "none", or a warm start of the router, see `modtf.experiments.modarch.warm_start`.
        start_steps: steps of the warm start, in addition to those of the protocol.
    """
    if start != "none" and start_steps:
        STARTS[start](context, start_steps)
    context.fit("", context.model, None, context.training.steps)
