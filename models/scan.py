"""All tokens of a modular recurrence as one operation with a gradient of its own.

One product per token takes [x ; h] to the gates of all modules. What TensorFlow would derive copies every
tensor of every token into lists; here each is written once, tokens outermost, and little is kept: the
gates, or where modules score themselves the two products they are computed from.

The members of a population take turns, P * N iterations in all: together they would leave the caches.
"""

from typing import Any

from keras import ops

from modtf.models.routers.base import Router
from modtf.models.scan_gradient import ScanGradient
from modtf.models.tokens import row, sum_modules, with_row


def can_scan(cell: Any, router: Router) -> bool:
    """Whether cell and router have written out their gradients."""
    return hasattr(cell, "gradient") and (not router.needs_scores or router.scores_gradient is not None)


class Scan:
    """The recurrence of one batch; the gates' rows are ordered [G, M, h].

    Args:
        cell: with a gradient, see `modtf.models.cells`.
        router: if it needs scores, with a gradient.
        gate_shape: [1, G, M, h, B], of one member.
        inputs: k, the width of a token.
        num_tokens: N.
    """

    def __init__(self, cell: Any, router: Router, gate_shape: list, inputs: int, num_tokens: Any, dtype: Any):
        self.cell, self.router, self.dtype = cell, router, dtype
        self.gate_shape, self.inputs, self.num_tokens = list(gate_shape), inputs, num_tokens
        _, self.num_gates, self.modules, self.width, self.batch = gate_shape
        self.scored = router.needs_scores
        #: the rows of [x ; h] that each kernel reads
        self.reads = [slice(0, inputs), slice(inputs, None)] if self.scored else [slice(None)]

    def __call__(self, tokens, activation, score, *kernels):
        """Runs it.

        Args:
            tokens: x [P * N, 1, k, B].
            activation: p [P * N, 1, M, B]; of any value where the router needs scores.
            score: where it does, what module m's score weighs ReLU(W_m x) and ReLU(U_m h) with,
                [P, 2, G, M, h, 1].
            kernels: [W U] [P, G * M * h, k + h]; where it does, W and U.

        Returns:
            Shared states h [P * N, 1, h, B] and p [P * N, 1, M, B].
        """
        return ops.custom_gradient(self._with_gradient)(tokens, activation, score, *kernels)

    def _with_gradient(self, tokens, activation, score, *kernels):
        kept = self._forward(tokens, activation, score, kernels)

        def gradient(*args, upstream=None):
            given = args if upstream is None else upstream
            given = given if len(given) == 2 else given[0]  # JAX gives one tuple
            return ScanGradient(self, kept, score, kernels, *given).run()

        return (kept.pop("hidden"), kept["activation"]), gradient

    def _forward(self, tokens, activation, score, kernels):
        """The states and everything the gradient needs, by token."""
        cell, (_, _, modules, width, batch), count = self.cell, self.gate_shape, ops.shape(tokens)[0]

        def step(n, carry):
            kept, scratch, states = carry
            member = n // self.num_tokens
            states = [ops.where(n % self.num_tokens > 0, state, 0.0) for state in states]
            inputs = ops.concatenate([row(tokens, n), states[0]], axis=1)
            products = [
                ops.reshape(ops.matmul(row(kernel, member), inputs[:, rows]), self.gate_shape)
                for kernel, rows in zip(kernels, self.reads, strict=True)
            ]
            activated = cell.activate(total(products))
            if self.scored:
                p = self.router(scores=self.scores(products, row(score, member)))
            else:
                p = row(activation, n)
            proposals, squashed = cell.propose([activated[:, k] for k in range(self.num_gates)], states)
            new = {
                "inputs": [inputs],
                "states": states[1:],
                "gates": products if self.scored else [activated],
                "squashed": squashed,
                "activation": [p] if self.scored else [],
            }
            weighted = proposals if modules == 1 else [p[:, :, None] * proposal for proposal in proposals]
            scratch, states = sum_modules(scratch, n, weighted)
            new["hidden"] = states[:1]
            kept = {
                name: tuple(with_row(rows, n, value) for rows, value in zip(kept[name], values, strict=True))
                for name, values in new.items()
            }
            return kept, tuple(scratch), tuple(states)

        kept = {
            "inputs": self.zeros(1, count, 1, self.inputs + width, batch),
            "states": self.zeros(cell.num_states - 1, count, 1, width, batch),
            "gates": self.zeros(len(kernels), count, *self.gate_shape),
            "squashed": self.zeros(cell.num_kept, count, 1, modules, width, batch),
            "activation": (ops.zeros_like(activation),) if self.scored else (),
            "hidden": self.zeros(1, count, 1, width, batch),
        }
        start = self.zeros(cell.num_states, 1, width, batch)
        kept, _, _ = ops.fori_loop(0, count, step, (kept, self.scratch(), start))
        (kept["inputs"],), (kept["hidden"],) = kept["inputs"], kept["hidden"]
        (kept["activation"],) = kept["activation"] or (activation,)
        return kept

    def scores(self, products, score):
        """What every module scores itself with, [1, M, B]."""
        weighted = total([ops.relu(product) * score[s] for s, product in enumerate(products)])
        return self.sum_width(ops.sum(weighted, axis=1))

    def sum_width(self, terms):
        """Sum over the width, [1, M, h, B] -> [1, M, B], as a product with ones: that is vectorised."""
        ones = ops.repeat(ops.eye(self.modules, dtype=self.dtype), self.width, axis=1)
        return ops.matmul(ones, ops.reshape(terms, [1, self.modules * self.width, self.batch]))

    def zeros(self, count, *shape):
        return tuple(ops.zeros(shape, self.dtype) for _ in range(count))

    def scratch(self):
        """For `sum_modules`."""
        sums = self.cell.num_states if self.modules > 1 else 0
        return self.zeros(sums, 2, 1, self.modules, self.width, self.batch)


def total(terms):
    """Sum of a list of tensors."""
    return sum(terms[1:], start=terms[0])
