"""The arithmetic of training, and the number of steps of a program. No Keras, no TensorFlow here."""

from modtf.protocol import Training, tail_length

BACKWARD = 3  # forward and backward cost three times forward: two more products of the same size per product
ACCELERATION = 50  # how many cores an accelerator is worth, at least
STEPS_PER_PROGRAM = 20  # by then starting a program is lost in the steps
BYTES_PER_PROGRAM = 1 << 27  # of batches handed to, or made by, one program


def step_flops(parameters: int, num_tokens: int) -> int:
    """Floating-point operations of a training step, about: a token uses each weight once."""
    return 2 * BACKWARD * parameters * num_tokens


def largest_divisor(number: int, at_most: int) -> int:
    """Return the largest divisor of `number` that is at most `at_most`."""
    return next(n for n in range(min(number, at_most), 0, -1) if number % n == 0)


def epochs_of(training: Training) -> tuple[int, int, int]:
    """Return the equal parts of a training; an evaluation follows each.

    Where the checkpoint "tail" has evaluations of its own they are as fine as those need: at least ten times
    as many, if the steps can be divided so.

    Returns:
        How many; after how many comes an evaluation on validation data; after each of how many of the last
        ones comes one on test data, for "tail".

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


def steps_that_fit(bytes_per_step: int, steps: int) -> int:
    """Return how many of the `steps` steps between two returns to Python one program takes:

    a divisor of `steps`.
    """
    return largest_divisor(steps, max(1, min(STEPS_PER_PROGRAM, BYTES_PER_PROGRAM // bytes_per_step)))
