"""How much arithmetic training needs. Neither Keras nor TensorFlow here."""

BACKWARD = 3  # forward and backward cost three times forward: two more products of the same size per product
ACCELERATION = 50  # how many cores an accelerator is worth, at least


def step_flops(parameters: int, num_tokens: int) -> int:
    """Floating-point operations of a training step, about: every weight is used once for every token.

    Args:
        parameters: of what is trained.
        num_tokens: of a batch.
    """
    return 2 * BACKWARD * parameters * num_tokens
