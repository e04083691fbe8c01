"""The layout that `modtf.models.kernels.scan` and its gradient share: sizes, orders of axes, sums."""

from dataclasses import dataclass
from typing import Any

from keras import ops

from modtf.models.kernels.by_device import by_device


@dataclass(frozen=True)
class ScanLayout:
    """The sizes of one scan. The rows of a product of all gates are ordered [G, M, h].

    If modules score themselves (`scored`), the products of the token and of the state are separate, because
    a score weights both. Otherwise they are one product.
    """

    members: int  # P
    gates: int  # G
    modules: int  # M
    width: int  # h, the width of a state
    states: int
    inputs: int  # k, the width of a token
    num_tokens: Any  # N
    batch: Any  # B
    scored: bool
    dtype: Any  # of states, sums and weights
    product_dtype: Any = None  # of the matrix products; `dtype` by default
    priced: bool = False  # whether the scan also returns the scores

    @property
    def by_state(self) -> list:
        """The shape of a shared state."""
        return [self.members, self.width, self.batch]

    @property
    def by_module(self) -> list:
        """The shape of the modules' proposals for a state."""
        return [self.members, self.modules, self.width, self.batch]

    @property
    def by_gate(self) -> list:
        """The shape of the gates."""
        return [self.members, self.gates, self.modules, self.width, self.batch]

    @property
    def reads(self) -> list[slice]:
        """Return the rows of [x ; h] that each product reads."""
        return [slice(0, self.inputs), slice(self.inputs, None)] if self.scored else [slice(None)]

    def product(self, a, b):
        """Multiply matrices by matrices."""
        dtype = self.product_dtype or self.dtype
        return ops.cast(ops.matmul(ops.cast(a, dtype), ops.cast(b, dtype)), self.dtype)

    def zeros(self, count, *shape):
        return tuple(ops.zeros(shape, self.dtype) for _ in range(count))

    def token_rows(self, count, *shape):
        """Return zeros with a row per token, for the loop to overwrite."""
        return self.zeros(count, self.num_tokens, *shape)

    @by_device(accelerator=lambda layout: ())
    def scratch(self):
        """Return storage for `sum_modules`."""
        return self.zeros(self.states if self.modules > 1 else 0, 2, *self.by_module)

    @by_device(accelerator=lambda layout: ())
    def gate_scratch(self):
        """Return storage for `join_parts`."""
        return self.zeros(1, *self.by_gate)[0]

    @by_device(accelerator=lambda layout, terms: ops.sum(terms, axis=2))
    def sum_width(self, terms):
        """Sum over the width, [P, M, h, B] -> [P, M, B].

        On a CPU it is a product with ones, which is vectorised.
        """
        ones = ops.repeat(ops.eye(self.modules, dtype=self.dtype), self.width, axis=1)
        return ops.matmul(ones, ops.reshape(terms, [self.members, self.modules * self.width, self.batch]))
