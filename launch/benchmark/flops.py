"""How much arithmetic a training step needs."""

from modtf.models.base import ModularModel
from modtf.training.arithmetic import BACKWARD


def step_flops(model: ModularModel, batch_size: int) -> int:
    """Floating-point operations of the products of one training step of one member, forward and backward."""
    return BACKWARD * batch_size * model.forward_flops()
