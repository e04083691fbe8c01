"""y_n = alpha_c v_{s,c} + beta_c v'_{s',c}: each token searches the others (the paper's MHA task)."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from modtf.datasets.families.base import Parameters, RuleData
from modtf.datasets.families.mlp import Affine, weighted_sum
from modtf.datasets.random import standard_normal, unit_vector
from modtf.families.mha import KEY_WIDTH, num_fields
from modtf.task import Task


class Search(RuleData):
    """Every token carries, for every rule, two search keys (q, q') and two values (v, v').

    v1: the nearest token has the smallest |q_n - q_i|. v2: the largest dot product. A token is never
    its own nearest. Only the token's own rule is searched, so labelling does not grow with R.
    """

    @staticmethod
    def parameters(task: Task) -> dict[str, np.ndarray]:
        return Affine.parameters(task)

    def __init__(self, tasks: Sequence[Task]):
        super().__init__(tasks)
        self.key_width = KEY_WIDTH[self.task.search]
        self.num_fields = num_fields(self.task)

    def num_uniforms(self, num_tokens: int) -> int:
        return 4 * num_tokens * self.num_rules  # a key takes one, whatever its width, and so does a value

    def inputs(self, uniforms: tf.Tensor, num_tokens: int) -> tf.Tensor:
        if self.key_width == 1:
            fields = standard_normal(uniforms)
        else:
            first, second, values = tf.split(uniforms, [uniforms.shape[-1] // 4] * 2 + [-1], axis=-1)
            fields = tf.concat([*unit_vector(first), *unit_vector(second), standard_normal(values)], axis=-1)
        fields = tf.reshape(fields, [-1, self.num_fields, num_tokens * self.num_rules])
        # one transposition is five times faster than tf.stack(..., axis=-1)
        return tf.reshape(tf.transpose(fields, [0, 2, 1]), [-1, num_tokens, self.num_rules * self.num_fields])

    def outputs(self, parameters: Parameters, inputs: tf.Tensor, rule: tf.Tensor) -> tf.Tensor:
        num_tokens, fields = inputs.shape[1], self.num_fields
        # What each token sees of all tokens under its own rule. Contiguous rows of fields * N numbers let one
        # gather fetch them all: [G, N searching, fields, N searched]
        by_rule = tf.reshape(tf.transpose(inputs, [0, 2, 1]), [-1, self.num_rules, fields * num_tokens])
        seen = tf.reshape(tf.gather(by_rule, rule, batch_dims=1), [-1, num_tokens, fields, num_tokens])
        own = tf.gather(tf.reshape(inputs, [-1, num_tokens, self.num_rules, fields]), rule, batch_dims=2)
        keys = 2 * self.key_width
        nearest = self._nearest(own[..., :keys, None], seen[..., :keys, :])
        found = tf.gather(seen[..., keys:, :], nearest, batch_dims=3)
        return weighted_sum(parameters, found[..., 0], rule)

    def _nearest(self, own: tf.Tensor, seen: tf.Tensor) -> tf.Tensor:
        """Keys [G, N, 2k, 1] and seen keys [G, N, 2k, N] -> nearest other by q and by q', [G, N, 2, 1]."""
        num_tokens = seen.shape[-1]
        if self.key_width == 1:
            closeness = -tf.abs(seen - own)
        else:
            products = tf.reshape(seen * own, [-1, num_tokens, 2, self.key_width, num_tokens])
            closeness = tf.reduce_sum(products, axis=3)
        itself = np.diag(np.full(num_tokens, np.inf))[:, None, :]
        # top_k is faster than argmax; both take the first of equals
        return tf.math.top_k(closeness - tf.constant(itself, closeness.dtype)).indices
