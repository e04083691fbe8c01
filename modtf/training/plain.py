"""The default trainer of variants: one stage on the task's stream."""

from collections.abc import Callable

from modtf.checks import check_choice, check_integer
from modtf.registry import Registry
from modtf.training.trainer import TrainerContext, checked_by

NONE = "none"
_WARM = "modtf.experiments.modarch.warm_start"
Start = Callable[[TrainerContext, int], None]  # (context, steps): fits the router before training
STARTS: Registry[Start] = Registry("start", {"oracle": _WARM, "random": _WARM})


def check_start(start: str = NONE, start_steps: int = 0) -> None:
    """Raise `ValueError` on an unknown start, or an invalid number of steps."""
    check_choice("start", start, (NONE, *STARTS))
    check_integer("start_steps", start_steps, 0)


@checked_by(check_start)
def plain(context: TrainerContext, start: str = NONE, start_steps: int = 1000) -> None:
    """Train on the "train" stream for the steps of the protocol.

    Args:
        context: the training.
        start: "none", or a warm start of the router, see `modtf.experiments.modarch.warm_start`.
        start_steps: steps of the warm start, in addition to those of the protocol.
    """
    if start != NONE and start_steps:
        STARTS[start](context, start_steps)
    context.fit("", context.model, None, context.training.steps)
