"""The gradient of `modtf.models.kernels.scan`: from the last token to the first."""

from typing import Any

from keras import ops

from modtf.models.kernels.rows import lane_sums, part, row, sum_modules, with_part, with_row


class ScanGradient:
    """The way back through one scan. What is called of_x is the gradient of x.

    The kernels' gradients are summed up token by token, while the gates' are still in the cache.

    Args:
        scan: the `Scan`.
        kept: what it kept, by token.
        score, kernels: as it was given.
        of_hidden, of_activation: of what it returned.
    """

    def __init__(self, scan: Any, kept: dict, score: Any, kernels: tuple, of_hidden: Any, of_activation: Any):
        self.scan, self.cell, self.kept, self.score, self.kernels = scan, scan.cell, kept, score, kernels
        self.of_hidden, self.of_activation = of_hidden, of_activation
        self.transposed = [ops.transpose(kernel, [0, 2, 1]) for kernel in kernels]

    def run(self):
        """Gradients of the tokens, p, the scores' weights and the kernels."""
        scan = self.scan
        num_tokens, members, _, batch = ops.shape(self.of_hidden)
        zeros = {
            "tokens": scan.zeros(1, num_tokens, members, scan.inputs, batch),
            "activation": () if scan.scored else (ops.zeros_like(self.of_activation),),
            "score": tuple(ops.zeros_like(lane_sums(rows[0])) for rows in self.kept["gates"])
            if scan.scored
            else (),
            "kernels": tuple(ops.zeros_like(kernel) for kernel in self.kernels),
            "gates": scan.zeros(1, *scan.gate_shape),
        }
        states = scan.zeros(self.cell.num_states, members, scan.width, batch)
        found, _, _ = ops.fori_loop(0, num_tokens, self.step, (zeros, scan.scratch(), states))
        (of_tokens,), (of_p,) = found["tokens"], found["activation"] or (ops.zeros_like(self.of_activation),)
        if scan.scored:
            of_score = ops.stack([ops.sum(sums, axis=-1, keepdims=True) for sums in found["score"]])
        else:
            of_score = ops.zeros_like(self.score)
        return of_tokens, of_p, of_score, *found["kernels"]

    def step(self, i, carry):
        """Token N - 1 - i."""
        found, scratch, of_states = carry
        scan, cell, kept = self.scan, self.cell, self.kept
        n = scan.num_tokens - 1 - i
        inputs, p = row(kept["inputs"], n), row(kept["activation"], n)
        states = (inputs[:, scan.inputs :], *(row(rows, n) for rows in kept["states"]))
        squashed = tuple(row(rows, n) for rows in kept["squashed"])
        activated = self.activated(n)
        of_states = [of_states[0] + row(self.of_hidden, n), *of_states[1:]]
        upstream, of_p = [of_state[:, None] for of_state in of_states], row(self.of_activation, n)
        if scan.modules > 1:
            proposals, _ = cell.propose(activated, states, squashed)
            of_p = of_p + scan.sum_width(sum(a * b for a, b in zip(upstream, proposals, strict=True)))
            upstream = [p[:, :, None] * of_state for of_state in upstream]
        by_gate, by_state = cell.gradient(activated, squashed, states, upstream)
        (of_gates,) = found["gates"]
        for k, of_gate in enumerate(by_gate):
            of_gates = with_part(of_gates, k, of_gate)

        of_products, of_score = self.of_products(n, p, of_p, of_gates, found["score"])
        of_inputs = [ops.matmul(k, of) for k, of in zip(self.transposed, of_products, strict=True)]
        of_kernels = [
            of_kernel + ops.matmul(of, ops.transpose(inputs[:, rows], [0, 2, 1]))
            for of_kernel, of, rows in zip(found["kernels"], of_products, scan.reads, strict=True)
        ]
        if not scan.scored:
            of_inputs = [of_inputs[0][:, : scan.inputs], of_inputs[0][:, scan.inputs :]]
        scratch, direct = sum_modules(scratch, n, [of for of in by_state if of is not None])
        sums = iter(direct)
        of_states = [0.0 if of is None else next(sums) for of in by_state]
        of_states[0] = of_states[0] + of_inputs[1]
        found = {
            "tokens": (with_row(found["tokens"][0], n, of_inputs[0]),),
            "activation": tuple(with_row(rows, n, of_p) for rows in found["activation"]),
            "score": of_score,
            "kernels": tuple(of_kernels),
            "gates": (of_gates,),
        }
        return found, tuple(scratch), tuple(of_states)

    def activated(self, n):
        """The activated gates of a token, one by one."""
        gates, count = self.kept["gates"], self.cell.num_gates
        if not self.scan.scored:
            return [part(gates[0], n, k) for k in range(count)]
        activated = self.cell.activate(row(gates[0], n) + row(gates[1], n))
        return [activated[:, k] for k in range(count)]

    def of_products(self, n, p, of_p, of_gates, of_score):
        """Each kernel's product feeds the gates and, where modules score themselves, the score."""
        scan, shape = self.scan, [self.scan.members, -1, self.scan.batch]
        if not scan.scored:
            return [ops.reshape(of_gates, shape)], of_score
        of_scores = scan.router.scores_gradient(p, of_p)[:, None, :, None]
        found, sums = [], []
        for s, (rows, of) in enumerate(zip(self.kept["gates"], of_score, strict=True)):
            product = row(rows, n)
            found.append(
                ops.reshape(of_gates + ops.where(product > 0, of_scores * self.score[s], 0.0), shape)
            )
            sums.append(of + lane_sums(of_scores * ops.relu(product)))
        return found, tuple(sums)
