"""The encoder of tokens that carry many numbers."""

from typing import Any

from keras import ops

from modtf.models.initial import InitialWeights
from modtf.models.layers import TwoLayer


class TokenEncoder(TwoLayer):
    """Dense, ReLU, dense on [inputs, one-hot rule] of every token.

    Args:
        inputs: F, numbers of a token; others as in `TwoLayer`.
    """

    def __init__(
        self, initial: InitialWeights, inputs: int, num_rules: int, width: int, name: str, dtype: Any = None
    ):
        super().__init__(initial, inputs + num_rules, width, width, name, dtype=dtype)
        self.inputs = inputs

    def call(self, x):
        """A pair, inputs [P, F, N, B] and rules [P, R, N * B] -> [P, width, N * B]."""
        inputs, rule = x
        kernel = self.first.kernel
        members, (num_tokens, batch) = kernel.shape[0], ops.shape(inputs)[2:]
        if self.inputs <= kernel.shape[1]:
            return super().call(
                ops.concatenate([ops.reshape(inputs, [members, self.inputs, -1]), rule], axis=1)
            )
        # Wide inputs are multiplied as they came, and the narrower product is transposed instead
        tokens = ops.reshape(ops.transpose(inputs, [0, 3, 2, 1]), [members, -1, self.inputs])
        h = ops.matmul(tokens, ops.transpose(kernel[:, :, : self.inputs], [0, 2, 1]))
        h = ops.transpose(ops.reshape(h, [members, batch, num_tokens, -1]), [0, 3, 2, 1])
        h = ops.reshape(h, [members, kernel.shape[1], -1]) + ops.matmul(kernel[:, :, self.inputs :], rule)
        return self.second(ops.relu(h + self.first.bias))
