"""The gradient of `modtf.models.kernels.scan`, from the last token to the first."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from modtf.models.kernels.rows import join_parts, lane_sums, part, product_row, row, sum_modules, with_row
from modtf.models.kernels.scan_layout import ScanLayout


class ScanGradient:
    """The backward pass of one scan. A name `of_x` is the gradient with respect to x.

    The kernels' gradients are summed token by token, while the gates' gradients are still in the cache.

    Args:
        cell, layout, route: those of the `Scan`.
        routing, score, kernels: the arguments of the `Scan`.
        kept: the values that the scan kept, per token.
    """

    def __init__(
        self,
        cell: Any,
        layout: ScanLayout,
        route: Callable[[Any, Any], Any],
        routing: Any,
        score: Any,
        kernels: tuple,
        kept: dict[str, Any],
    ):
        self.cell, self.layout, self.route = cell, layout, route
        self.routing, self.score, self.kernels, self.kept = routing, score, kernels, kept
        self.activation = kept["activation"] if layout.scored else routing
        self.transposed = [ops.transpose(kernel, [0, 2, 1]) for kernel in kernels]

    def __call__(self, of_hidden, of_activation, *of_scores):
        """Map the gradients of the scan's results to those of its arguments, in their order."""
        layout, self.of_scores = self.layout, of_scores
        zeros = {
            "tokens": layout.token_rows(1, layout.members, layout.inputs, layout.batch)[0],
            "routing": () if layout.scored else (ops.zeros_like(of_activation),),
            "score": tuple(ops.zeros_like(lane_sums(product_row(rows, 0))) for rows in self.kept["gates"])
            if layout.scored
            else (),
            "kernels": tuple(ops.zeros_like(kernel) for kernel in self.kernels),
            "gates": layout.gate_scratch(),
        }

        def step(i, carry):
            n = layout.num_tokens - 1 - i
            return self._step(n, row(of_hidden, n), row(of_activation, n), *carry)

        carry = zeros, layout.scratch(), layout.zeros(layout.states, *layout.by_state)
        gradients, _, _ = ops.fori_loop(0, layout.num_tokens, step, carry)
        (of_routing,) = gradients["routing"] or (ops.zeros_like(self.routing),)
        of_score = ops.zeros_like(self.score)
        if layout.scored:
            of_score = ops.stack([ops.sum(sums, axis=-1, keepdims=True) for sums in gradients["score"]])
        return gradients["tokens"], of_routing, of_score, *gradients["kernels"]

    def _step(self, n, of_hidden, of_p, gradients, scratch, of_states):
        """Go back through token n."""
        layout, cell, kept = self.layout, self.cell, self.kept
        inputs, p = row(kept["inputs"], n), row(self.activation, n)
        states = (inputs[:, layout.inputs :], *(row(rows, n) for rows in kept["states"]))
        squashed = tuple(row(rows, n) for rows in kept["squashed"])
        activated = self._activated(n)
        of_states = [of_states[0] + of_hidden, *of_states[1:]]
        upstream = [of_state[:, None] for of_state in of_states]
        if layout.modules > 1:
            proposals, _ = cell.propose(activated, states, squashed)
            of_p = of_p + layout.sum_width(sum(a * b for a, b in zip(upstream, proposals, strict=True)))
            upstream = [p[:, :, None] * of_state for of_state in upstream]
        by_gate, by_state = cell.gradient(activated, squashed, states, upstream)
        gate_scratch, of_gates = join_parts(gradients["gates"], by_gate)
        of_products, of_score = self._of_products(n, of_p, of_gates, gradients["score"])
        of_inputs = [layout.product(k, of) for k, of in zip(self.transposed, of_products, strict=True)]
        of_kernels = [
            of_kernel + layout.product(of, ops.transpose(inputs[:, rows], [0, 2, 1]))
            for of_kernel, of, rows in zip(gradients["kernels"], of_products, layout.reads, strict=True)
        ]
        if not layout.scored:
            of_inputs = [of_inputs[0][:, : layout.inputs], of_inputs[0][:, layout.inputs :]]
        scratch, direct = sum_modules(scratch, n, [of for of in by_state if of is not None])
        sums = iter(direct)
        of_states = [0.0 if of is None else next(sums) for of in by_state]
        of_states[0] = of_states[0] + of_inputs[1]
        gradients = {
            "tokens": with_row(gradients["tokens"], n, of_inputs[0]),
            "routing": tuple(with_row(rows, n, of_p) for rows in gradients["routing"]),
            "score": of_score,
            "kernels": tuple(of_kernels),
            "gates": gate_scratch,
        }
        return gradients, tuple(scratch), tuple(of_states)

    def _activated(self, n):
        """Yield the activated gates of a token, one by one."""
        gates, count = self.kept["gates"], self.layout.gates
        if not self.layout.scored:
            return [part(gates[0], n, k) for k in range(count)]
        activated = self.cell.activate(product_row(gates[0], n) + product_row(gates[1], n))
        return [activated[:, k] for k in range(count)]

    def _of_products(self, n, of_p, of_gates, of_score):
        """Return the gradients of the products, which feed the gates and the modules' scores, if any."""
        layout, shape = self.layout, [self.layout.members, -1, self.layout.batch]
        if not layout.scored:
            return [ops.reshape(of_gates, shape)], of_score
        rule = row(self.routing, n)
        of_scores = vector_jacobian(lambda s: self.route(rule, s), row(self.kept["scores"], n), of_p)
        for of_price in self.of_scores:
            of_scores = of_scores + row(of_price, n)
        of_scores = of_scores[:, None, :, None]
        gradients, sums = [], []
        for s, (rows, of) in enumerate(zip(self.kept["gates"], of_score, strict=True)):
            product = product_row(rows, n)
            gradients.append(
                ops.reshape(of_gates + ops.where(product > 0, of_scores * self.score[s], 0.0), shape)
            )
            sums.append(of + lane_sums(of_scores * ops.relu(product)))
        return gradients, tuple(sums)


def vector_jacobian(function: Callable[[Any], Any], x: Any, upstream: Any) -> Any:
    """Return the gradient of sum(function(x) * upstream) with respect to x, inside any loop.

    Args:
        function: maps one tensor to one tensor.
        x: the point of differentiation.
        upstream: has the shape of function(x).
    """
    if keras.backend.backend() == "jax":
        import jax

        return jax.vjp(function, x)[1](upstream)[0]
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x, upstream, tf.UnconnectedGradients.ZERO)
