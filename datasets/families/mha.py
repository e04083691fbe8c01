"""y_n = alpha_c v_{s,c} + beta_c v'_{s',c}: each token searches the others (the paper's MHA task)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from modtf.datasets.families.base import Parameters, RuleData
from modtf.datasets.families.mlp import Affine
from modtf.datasets.families.variations import answer
from modtf.datasets.random import standard_normal, unit_vector
from modtf.tasks.task import Task


class Lookup(RuleData):
    """Every token carries, for every rule, two search keys (q, q') and two values (v, v').

    v1: the nearest token has the smallest |q_n - q_i|. v2: it has the largest dot product. A token is never
    its own nearest. The search uses only the token's own rule, so its cost does not grow with R.
    """

    runs_on_device = True
    splits_share_programs = True

    @staticmethod
    def parameters(task: Task) -> dict[str, np.ndarray]:
        return Affine.parameters(task)

    def __init__(self, tasks: Sequence[Task]):
        super().__init__(tasks)
        self.num_fields = self.task.token_width // self.num_rules  # two keys q, q' and two values v, v'
        self.key_width = self.num_fields // 2 - 1

    def num_uniforms(self, num_tokens: int) -> int:
        return 4 * num_tokens * self.num_rules  # one for each key, whatever its width, and one for each value

    def inputs(self, uniforms: Any, num_tokens: int) -> Any:
        ops, keys = self.ops, num_tokens * self.num_rules  # keys of each kind
        if self.key_width == 1:
            fields = standard_normal(ops, uniforms)
        else:
            first, second, values = uniforms[:, :keys], uniforms[:, keys : 2 * keys], uniforms[:, 2 * keys :]
            vectors = [*unit_vector(ops, first), *unit_vector(ops, second)]
            fields = ops.concatenate([*vectors, standard_normal(ops, values)], axis=-1)
        fields = ops.reshape(fields, [-1, self.num_fields, keys])
        # one transposition is five times faster than tf.stack(..., axis=-1)
        fields = ops.transpose(fields, [0, 2, 1])
        return ops.reshape(fields, [-1, num_tokens, self.num_rules * self.num_fields])

    def outputs(self, parameters: Parameters, inputs: Any, rule: Any) -> Any:
        ops, (num_tokens, fields) = self.ops, (inputs.shape[1], self.num_fields)
        # The fields of all tokens under the searching token's rule. With contiguous rows of fields * N
        # numbers, one gather fetches them all: [G, N searching, fields, N searched]
        by_rule = [inputs.shape[0], self.num_rules, fields * num_tokens]
        by_rule = ops.reshape(ops.transpose(inputs, [0, 2, 1]), by_rule)
        seen = ops.reshape(ops.gather(by_rule, rule, batch_dims=1), [-1, num_tokens, fields, num_tokens])
        own = ops.reshape(inputs, [inputs.shape[0], num_tokens, self.num_rules, fields])
        own = ops.gather(own, rule, batch_dims=2)
        keys = 2 * self.key_width
        nearest = self._nearest(own[..., :keys, None], seen[..., :keys, :])
        values = ops.gather(seen[..., keys:, :], nearest, batch_dims=3)
        return answer(self, parameters, values, rule)

    def _nearest(self, own: Any, seen: Any) -> Any:
        """Map keys [G, N, 2k, 1] and seen keys [G, N, 2k, N] to the nearest one by q and by q', [G, N, 2]."""
        ops, num_tokens = self.ops, seen.shape[-1]
        if self.key_width == 1:
            closeness = -ops.abs(seen - own)
        else:
            products = ops.reshape(seen * own, [-1, num_tokens, 2, self.key_width, num_tokens])
            closeness = ops.sum(products, axis=3)
        itself = np.diag(np.full(num_tokens, np.inf))[:, None, :]
        return ops.argmax(closeness - ops.cast(itself, closeness.dtype), axis=-1)
