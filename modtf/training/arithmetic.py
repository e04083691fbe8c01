"""The arithmetic of training, and the number of steps of a program. No Keras, no TensorFlow here."""

import math
import warnings
from functools import cache

from modtf.tasks.protocol import Training, tail_length

BACKWARD = 3  # a training step costs three forward passes: backward needs two more products each
ACCELERATION = 50  # an accelerator equals at least this many cores
STEPS_PER_PROGRAM = 20  # enough to make the start of a program negligible
BYTES_PER_PROGRAM = 1 << 27  # limit on the batches that one program reads or makes


def step_flops(parameters: int, num_tokens: int) -> int:
    """Return the approximate floating-point operations of a training step: a token uses each weight once."""
    return 2 * BACKWARD * parameters * num_tokens


def largest_divisor(number: int, at_most: int) -> int:
    """Return the largest divisor of `number` that is at most `at_most`."""
    return next(n for n in range(min(number, at_most), 0, -1) if number % n == 0)


def epochs_of(training: Training) -> tuple[int, int, int]:
    """Return how a training is divided into equal parts, each followed by an evaluation.

    If the checkpoint "tail" has its own evaluations, the parts are finer: at least ten times as many, if the
    number of steps can be divided that way.

    Returns:
        The number of parts; the number of parts between two validation evaluations; and, for "tail", the
        number of last parts that are each followed by an evaluation on test data.

    Example:
        >>> epochs_of(Training(steps=25_000, evaluations=20, tail=10))
        (100, 5, 10)
        >>> epochs_of(Training(steps=25_000, evaluations=20))
        (20, 1, 10)
    """
    evaluations, least = largest_divisor(training.steps, training.evaluations), 10 * training.tail
    finer = [n * evaluations for n in range(1, 2 * least) if training.steps % (n * evaluations) == 0]
    epochs = next((n for n in finer if least <= n <= 2 * least), evaluations)
    return epochs, epochs // evaluations, max(1, epochs // 10) if training.tail else tail_length(epochs)


@cache  # once, however many trainings of a process ask for it
def warn_of_few_evaluations(steps: int, evaluations: int, tail: int) -> None:
    """Warn if a training makes fewer than half of its evaluations, or fewer than those of its "tail", because
    its steps have few divisors."""
    made, least = largest_divisor(steps, evaluations), 10 * tail
    _, _, last = epochs_of(Training(steps=steps, evaluations=evaluations, tail=tail))
    if 2 * made < min(steps, evaluations):
        multiple, what = evaluations, f"{made} of {evaluations} evaluations will be made"
    elif last < tail and least <= steps:
        multiple = evaluations * math.ceil(least / evaluations)
        what = f'the checkpoint "tail" will be {last} of {tail} evaluations'
    else:
        return
    warnings.warn(
        f"{steps:,} training steps: {what}, because they divide the steps into equal parts. Choose a "
        f"multiple of {multiple} steps, such as {max(1, round(steps / multiple)) * multiple:,}.",
        stacklevel=2,
    )


def steps_that_fit(bytes_per_step: int, steps: int) -> int:
    """Return how many steps one program takes: a divisor of `steps`, the number between two returns to
    Python.
    """
    return largest_divisor(steps, max(1, min(STEPS_PER_PROGRAM, BYTES_PER_PROGRAM // bytes_per_step)))
