"""How much arithmetic training needs, and how many steps a program takes. No Keras, no TensorFlow here."""

BACKWARD = 3  # forward and backward cost three times forward: two more products of the same size per product
ACCELERATION = 50  # how many cores an accelerator is worth, at least
STEPS_PER_PROGRAM = 20  # by then starting a program is lost in the steps
BYTES_PER_PROGRAM = 1 << 27  # of batches handed to, or made by, one program


def step_flops(parameters: int, num_tokens: int) -> int:
    """Floating-point operations of a training step, about: a token uses each weight once."""
    return 2 * BACKWARD * parameters * num_tokens


def largest_divisor(number: int, at_most: int) -> int:
    """The largest divisor of `number` that is not above `at_most`."""
    return next(n for n in range(min(number, at_most), 0, -1) if number % n == 0)


def steps_that_fit(bytes_per_step: int, steps: int) -> int:
    """How many of the `steps` steps between two returns to Python one program takes: a divisor of `steps`."""
    return largest_divisor(steps, max(1, min(STEPS_PER_PROGRAM, BYTES_PER_PROGRAM // bytes_per_step)))
