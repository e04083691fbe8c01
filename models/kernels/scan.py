"""All tokens of a modular recurrence as one operation with a gradient of its own.

One product per token takes [x ; h] to the gates of all modules. What TensorFlow would derive copies every
tensor of every token into lists; here each is written once, tokens outermost, and little is kept: the
gates, or where modules score themselves the two products they are computed from.
"""

from typing import Any

from keras import ops

from modtf.models.kernels.rows import row, sum_modules, with_row
from modtf.models.kernels.scan_gradient import ScanGradient
from modtf.models.routers.base import Router


def can_scan(cell: Any, router: Router) -> bool:
    """Whether cell and router have written out their gradients."""
    return hasattr(cell, "gradient") and (not router.needs_scores or router.scores_gradient is not None)


class Scan:
    """The recurrence of one batch; the gates' rows are ordered [G, M, h].

    Args:
        cell: with a gradient, see `modtf.models.cells`.
        router: if it needs scores, with a gradient.
        gate_shape: [P, G, M, h, B].
        inputs: k, the width of a token.
    """

    def __init__(self, cell: Any, router: Router, gate_shape: list, inputs: int, num_tokens: Any, dtype: Any):
        self.cell, self.router, self.dtype = cell, router, dtype
        self.gate_shape, self.inputs, self.num_tokens = list(gate_shape), inputs, num_tokens
        self.members, self.num_gates, self.modules, self.width, self.batch = gate_shape
        self.scored = router.needs_scores
        #: the rows of [x ; h] that each kernel reads
        self.reads = [slice(0, inputs), slice(inputs, None)] if self.scored else [slice(None)]

    def __call__(self, tokens, activation, score, *kernels):
        """Runs it.

        Args:
            tokens: x [N, P, k, B].
            activation: p [N, P, M, B]; of any value where the router needs scores.
            score: where it does, what module m's score weighs ReLU(W_m x) and ReLU(U_m h) with,
                [2, P, G, M, h, 1].
            kernels: [W U] [P, G * M * h, k + h]; where it does, W and U.

        Returns:
            Shared states h [N, P, h, B] and p [N, P, M, B].
        """
        return ops.custom_gradient(self._with_gradient)(tokens, activation, score, *kernels)

    def _with_gradient(self, tokens, activation, score, *kernels):
        kept, last = self._forward(tokens, activation, score, kernels)
        hidden = ops.concatenate([kept["inputs"][1:, :, self.inputs :], last[0][None]], axis=0)

        def gradient(*args, upstream=None):
            given = args if upstream is None else upstream
            given = given if len(given) == 2 else given[0]  # JAX gives one tuple
            return ScanGradient(self, kept, score, kernels, *given).run()

        return (hidden, kept["activation"]), gradient

    def _forward(self, tokens, activation, score, kernels):
        """Everything the gradient needs, by token, and the last states."""
        cell, (members, _, modules, width, batch) = self.cell, self.gate_shape
        by_module = [members, modules, width, batch]

        def step(n, carry):
            kept, scratch, states = carry
            inputs = ops.concatenate([row(tokens, n), states[0]], axis=1)
            products = [
                ops.reshape(ops.matmul(kernel, inputs[:, rows]), self.gate_shape)
                for kernel, rows in zip(kernels, self.reads, strict=True)
            ]
            activated = cell.activate(total(products))
            p = self.router(scores=self.scores(products, score)) if self.scored else row(activation, n)
            proposals, squashed = cell.propose([activated[:, k] for k in range(self.num_gates)], states)
            new = {
                "inputs": [inputs],
                "states": states[1:],
                "gates": products if self.scored else [activated],
                "squashed": squashed,
                "activation": [p] if self.scored else [],
            }
            kept = {
                name: tuple(with_row(rows, n, value) for rows, value in zip(kept[name], values, strict=True))
                for name, values in new.items()
            }
            weighted = proposals if modules == 1 else [p[:, :, None] * proposal for proposal in proposals]
            scratch, states = sum_modules(scratch, n, weighted)
            return kept, tuple(scratch), tuple(states)

        start = self.zeros(cell.num_states, members, width, batch)
        kept = {
            "inputs": self.zeros(1, self.num_tokens, members, self.inputs + width, batch),
            "states": self.zeros(cell.num_states - 1, self.num_tokens, members, width, batch),
            "gates": self.zeros(len(kernels), self.num_tokens, *self.gate_shape),
            "squashed": self.zeros(cell.num_kept, self.num_tokens, *by_module),
            "activation": (ops.zeros_like(activation),) if self.scored else (),
        }
        kept, _, last = ops.fori_loop(0, self.num_tokens, step, (kept, self.scratch(), start))
        (kept["inputs"],) = kept["inputs"]
        (kept["activation"],) = kept["activation"] or (activation,)
        return kept, last

    def scores(self, products, score):
        """What every module scores itself with, [P, M, B]."""
        weighted = total([ops.relu(product) * score[s] for s, product in enumerate(products)])
        return self.sum_width(ops.sum(weighted, axis=1))

    def sum_width(self, terms):
        """Sum over the width, [P, M, h, B] -> [P, M, B], as a product with ones: that is vectorised."""
        ones = ops.repeat(ops.eye(self.modules, dtype=self.dtype), self.width, axis=1)
        return ops.matmul(ones, ops.reshape(terms, [self.members, self.modules * self.width, self.batch]))

    def zeros(self, count, *shape):
        return tuple(ops.zeros(shape, self.dtype) for _ in range(count))

    def scratch(self):
        """For `sum_modules`."""
        sums = self.cell.num_states if self.modules > 1 else 0
        return self.zeros(sums, 2, self.members, self.modules, self.width, self.batch)


def total(terms):
    """Sum of a list of tensors."""
    return sum(terms[1:], start=terms[0])
