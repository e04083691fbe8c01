"""The choice of training a cell with XLA or without. No Keras, no TensorFlow here."""

import os
from collections.abc import Iterable

from modtf.base.extras import keras_backend
from modtf.base.words import plural
from modtf.models.architectures.sizes import SIZES, num_parameters
from modtf.tasks.cell import Cell
from modtf.training.arithmetic import step_flops
from modtf.training.machine import has_gpu

REPAYS = 2.0  # seconds of a core: XLA takes at least this much longer to begin than TensorFlow
OVERHEAD, FLOPS = 0.01, 4e10  # what a step costs more without XLA: seconds, and operations in a second
SEQUENCE = 5  # how many times the overhead is larger for sequences


def is_too_short_for_xla(cell: Cell) -> bool:
    """Return whether a cell trains for fewer steps than repay compilation by XLA on a core.

    If the environment variable `MODTF_XLA` decides, for or against XLA, none is. JAX always compiles.
    """
    if os.environ.get("MODTF_XLA") or keras_backend() != "tensorflow":
        return False
    if cell.network in SIZES and SIZES[cell.network].in_turn:
        return False  # XLA never compiles the latter on a CPU
    training, overhead = cell.protocol.training, OVERHEAD * (SEQUENCE if cell.task.is_sequence else 1)
    flops = len(cell.members) * step_flops(num_parameters(cell) or 0, cell.step_tokens)
    return training.steps * (overhead + flops / FLOPS) < REPAYS


def note_on_xla(cells: Iterable[Cell]) -> str:
    """Return a line on the cells that train without XLA; "" if there is none."""
    short = sum(map(is_too_short_for_xla, cells))
    if not short or has_gpu():
        return ""
    return (
        f"{plural(short, 'cell')} too short to repay compilation by XLA, and trained without; MODTF_XLA=1 "
        "compiles all."
    )
