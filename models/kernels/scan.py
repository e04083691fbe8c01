"""All tokens of a modular recurrence as one operation with a gradient of its own.

One product per token maps [x ; h] to the gates of all modules. TensorFlow's own gradient would copy every
tensor of every token into lists. Here each tensor is written once, tokens outermost, and little is kept: the
gates, or the scores and the two products behind the gates if modules score themselves.
"""

from collections.abc import Callable
from typing import Any

from keras import ops

from modtf.models.kernels.by_device import by_device
from modtf.models.kernels.gradients import custom_gradient
from modtf.models.kernels.rows import product_row, row, sum_modules, with_row
from modtf.models.kernels.scan_gradient import ScanGradient
from modtf.models.kernels.scan_layout import ScanLayout


class Scan:
    """The recurrence of one batch.

    Args:
        cell: a cell with a gradient, see `modtf.models.recurrence`.
        layout: the sizes.
        route: used if modules score themselves; returns p [P, M, B] from a token's routing [P, R + K, B] and
            scores [P, M, B]. It is differentiated by the scores only, and must hold no weight.
    """

    def __init__(self, cell: Any, layout: ScanLayout, route: Callable[[Any, Any], Any]):
        self.cell, self.layout, self.route = cell, layout, route

    def __call__(self, tokens, routing, score, *kernels):
        """Run the recurrence.

        Args:
            tokens: x [N, P, k, B].
            routing: p [N, P, M, B]. If modules score themselves: the one-hot rules and the router's extra
                input, [N, P, R + K, B].
            score: if modules score themselves, the weights of ReLU(W_m x) and ReLU(U_m h) in module m's
                score, [2, P, G, M, h, 1]; otherwise it is not read.
            kernels: [W U] [P, G * M * h, k + h]; if modules score themselves, W and U.

        Returns:
            The shared states h [N, P, h, B] and p [N, P, M, B]; and the scores [N, P, M, B] if they are
            penalised.
        """
        return custom_gradient(self._with_gradient)(tokens, routing, score, *kernels)

    def _with_gradient(self, tokens, routing, score, *kernels):
        kept, last = self._forward(tokens, routing, score, kernels)
        hidden = ops.concatenate([kept["inputs"][1:, :, self.layout.inputs :], last[0][None]], axis=0)

        def gradient(*args, upstream=None):
            gradients = args if upstream is None else upstream
            gradients = gradients if len(gradients) > 1 else gradients[0]  # JAX passes one tuple
            way_back = ScanGradient(self.cell, self.layout, self.route, routing, score, kernels, kept)
            return way_back(*gradients)

        outputs = (hidden, kept["activation"] if self.layout.scored else routing)
        return (*outputs, kept["scores"]) if self.layout.priced else outputs, gradient

    def _forward(self, tokens, routing, score, kernels):
        """Return everything that the gradient needs, by token, and the last states."""
        cell, layout = self.cell, self.layout
        driven = self._ahead(kernels[0], tokens)

        def step(n, carry):
            kept, scratch, states = carry
            inputs = ops.concatenate([row(tokens, n), states[0]], axis=1)
            products = [
                ops.reshape(layout.product(kernel, inputs[:, rows]), layout.by_gate)
                if s or driven is None
                else product_row(driven, n)
                for s, (kernel, rows) in enumerate(zip(kernels, layout.reads, strict=True))
            ]
            activated = cell.activate(total(products))
            new = {"inputs": inputs, "states": states[1:]}
            if layout.scored:
                scores = self.scores(products, score)
                p = self.route(row(routing, n), scores)
                new |= {"gates": products if driven is None else (), "scores": scores, "activation": p}
            else:
                p = row(routing, n)
                new |= {"gates": [activated]}
            proposals, new["squashed"] = cell.propose([activated[:, k] for k in range(layout.gates)], states)
            kept = {name: _write(rows, n, new[name]) for name, rows in kept.items()}
            weighted = proposals
            if layout.modules > 1:
                weighted = [p[:, :, None] * proposal for proposal in proposals]
            scratch, states = sum_modules(scratch, n, weighted)
            return kept, tuple(scratch), tuple(states)

        keep = self._keep(products=driven is None)
        carry = keep, layout.scratch(), layout.zeros(layout.states, *layout.by_state)
        kept, _, last = ops.fori_loop(0, layout.num_tokens, step, carry)
        if driven is not None:
            kept["gates"] = driven, self._ahead(kernels[1], kept["inputs"][:, :, layout.inputs :])
        return kept, last

    def _product_of_all(self, kernel, values):
        if not self.layout.scored:
            return None
        values = ops.reshape(ops.transpose(values, [1, 2, 0, 3]), [*values.shape[1:3], -1])
        shape = [*self.layout.by_gate[:-1], self.layout.num_tokens, self.layout.batch]
        return ops.reshape(self.layout.product(kernel, values), shape)

    @by_device(accelerator=_product_of_all)
    def _ahead(self, kernel, values):
        """Return a kernel's product with the values of all tokens: [N, P, k, B] -> [P, G, M, h, N, B].

        An accelerator computes W x of all tokens at once, and U h again for the gradient. It then copies no
        product of a token into place. On a CPU, and if modules do not score themselves, the loop keeps its
        products, and this returns None.
        """

    def _keep(self, products):
        """Return empty storage for the values kept per token, as a tuple if there are several of a kind."""
        layout, by_weight = self.layout, [self.layout.members, self.layout.modules, self.layout.batch]
        keep = {
            "inputs": layout.token_rows(1, layout.members, layout.inputs + layout.width, layout.batch)[0],
            "states": layout.token_rows(layout.states - 1, *layout.by_state),
            "gates": layout.token_rows(len(layout.reads) * products, *layout.by_gate),
            "squashed": layout.token_rows(self.cell.num_kept, *layout.by_module),
        }
        if layout.scored:
            keep["scores"], keep["activation"] = layout.token_rows(2, *by_weight)
        return keep

    def scores(self, products, score):
        """Return every module's score of itself, [P, M, B]."""
        weighted = total([ops.relu(product) * score[s] for s, product in enumerate(products)])
        return self.layout.sum_width(ops.sum(weighted, axis=1))


def _write(rows, n, value):
    """Write row n of a tensor, or of each tensor of a tuple."""
    if not isinstance(rows, tuple):
        return with_row(rows, n, value)
    return tuple(with_row(each, n, new) for each, new in zip(rows, value, strict=True))


def total(terms):
    """Return the sum of a list of tensors."""
    return sum(terms[1:], start=terms[0])
