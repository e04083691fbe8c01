"""All tokens of a modular recurrence as one operation with a gradient of its own.

One product per token maps [x ; h] to the gates of all modules. At the first token h is 0, so nothing that
reads h is multiplied. TensorFlow's own gradient would copy every tensor of every token into lists. Here each
tensor is written once, tokens outermost, and little is kept: the gates, or the scores and the two products
behind the gates if modules score themselves.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from modtf.models.kernels.by_device import by_device
from modtf.models.kernels.gradients import custom_gradient
from modtf.models.kernels.rows import join_parts, lane_sums, part, product_row, row, sum_modules, with_row


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

    def read(self, product: int, first: bool) -> slice | None:
        """Return the rows of [x ; h] that a product reads: at the first token those of x, or None."""
        if not first:
            return self.reads[product]
        return None if product else slice(0, self.inputs)

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

        def step(i, carry, first=False):
            n = layout.num_tokens - 1 - i
            return self._step(n, row(of_hidden, n), row(of_activation, n), first, *carry)

        carry = zeros, layout.scratch(), layout.zeros(layout.states, *layout.by_state)
        carry = ops.fori_loop(0, layout.num_tokens - 1, step, carry)
        gradients, _, _ = step(layout.num_tokens - 1, carry, first=True)
        (of_routing,) = gradients["routing"] or (ops.zeros_like(self.routing),)
        of_score = ops.zeros_like(self.score)
        if layout.scored:
            of_score = ops.stack([ops.sum(sums, axis=-1, keepdims=True) for sums in gradients["score"]])
        return gradients["tokens"], of_routing, of_score, *gradients["kernels"]

    def _step(self, n, of_hidden, of_p, first, gradients, scratch, of_states):
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
        of_inputs, of_kernels = [], []
        for k, (of, of_kernel) in enumerate(zip(of_products, gradients["kernels"], strict=True)):
            if (rows := layout.read(k, first)) is not None:
                transposed = self.transposed[k][:, : layout.inputs] if first else self.transposed[k]
                of_inputs.append(layout.product(transposed, of))
                of_kernel = _plus(of_kernel, layout.product(of, ops.transpose(inputs[:, rows], [0, 2, 1])))
            of_kernels.append(of_kernel)
        if not layout.scored and not first:
            of_inputs = [of_inputs[0][:, : layout.inputs], of_inputs[0][:, layout.inputs :]]
        scratch, direct = sum_modules(scratch, n, [of for of in by_state if of is not None])
        sums = iter(direct)
        of_states = [0.0 if of is None else next(sums) for of in by_state]
        if not first:
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


def _plus(kernel, columns):
    """Add values to the first columns of a kernel."""
    count = columns.shape[2]
    if count == kernel.shape[2]:
        return kernel + columns
    return ops.concatenate([kernel[:, :, :count] + columns, kernel[:, :, count:]], axis=2)


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

        def product(s, n, inputs, first):
            if s == 0 and driven is not None:
                return product_row(driven, n)
            if (rows := layout.read(s, first)) is None:
                return ops.zeros(layout.by_gate, layout.dtype)
            kernel = kernels[s][:, :, : layout.inputs] if first else kernels[s]
            return ops.reshape(layout.product(kernel, inputs[:, rows]), layout.by_gate)

        def step(n, carry, first=False):
            kept, scratch, states = carry
            inputs = ops.concatenate([row(tokens, n), states[0]], axis=1)
            products = [product(s, n, inputs, first) for s in range(len(kernels))]
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
        kept, _, last = ops.fori_loop(1, layout.num_tokens, step, step(0, carry, first=True))
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
