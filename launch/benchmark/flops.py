"""How much arithmetic a model needs: the floating-point operations of its products."""

import math

from modtf.models.base import ModularModel
from modtf.task import TRAINING_LENGTH

BACKWARD = 3  # forward and backward cost three times forward: two more products of the same size per product


def weight_flops(model: ModularModel) -> dict[str, int]:
    """Operations per token and member by weight: a multiplication and an addition per number.

    Biases that are only added, and elementwise functions, are not counted.
    """
    twice = (
        {id(v) for v in model.digit_encoder.trainable_variables} if hasattr(model, "digit_encoder") else set()
    )
    mixed = model.num_modules > 1
    return {
        variable.path: 2 * math.prod(variable.shape[1:]) * (2 if id(variable) in twice else 1)
        for variable in model.trainable_variables
        if variable.name.endswith("kernel") or (mixed and variable.path.endswith("modules_last/bias"))
    }


def attention_flops(model: ModularModel, num_tokens: int) -> int:
    """Operations per example of all scores and weighted sums of attention; 0 where there is none."""
    heads = getattr(model, "num_heads", 0)
    return 4 * num_tokens**2 * heads * getattr(model, "head_width", 0)


def forward_flops(model: ModularModel) -> int:
    """Floating-point operations of one member's forward pass on one example of the training length."""
    num_tokens = TRAINING_LENGTH if model.is_sequence else 1
    return num_tokens * sum(weight_flops(model).values()) + attention_flops(model, num_tokens)


def step_flops(model: ModularModel, batch_size: int) -> int:
    """Floating-point operations of one training step of one member, forward and backward."""
    return BACKWARD * batch_size * forward_flops(model)
