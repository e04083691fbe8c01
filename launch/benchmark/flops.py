"""How much arithmetic a training step needs."""

from modtf.models.base import ModularModel

BACKWARD = 3  # forward and backward cost three times forward: two more products of the same size per product


def step_flops(model: ModularModel, batch_size: int) -> int:
    """Floating-point operations of the products of one training step of one member, forward and backward."""
    return BACKWARD * batch_size * model.forward_flops()
