"""y_n = alpha_c v_{s,c} + beta_c v'_{s',c}: each token searches the others (the paper's MHA task)."""

import numpy as np
import tensorflow as tf

from modtf.datasets.families.base import TaskFamily
from modtf.datasets.families.mlp import Affine
from modtf.datasets.random import standard_normal, unit_vector
from modtf.task import Task

KEY_WIDTH = {"v1": 1, "v2": 2}  # scalar keys; unit vectors in the plane


class Search(TaskFamily):
    """Every token carries, for every rule, two search keys (q, q') and two values (v, v').

    v1: the nearest token has the smallest |q_n - q_i|. v2: the largest dot product. A token is never
    its own nearest. Only the token's own rule is searched, so labelling does not grow with R.
    """

    @staticmethod
    def parameters(task: Task) -> dict[str, np.ndarray]:
        return Affine.parameters(task)

    @property
    def key_width(self) -> int:
        return KEY_WIDTH[str(self.task.search)]

    @property
    def token_width(self) -> int:
        return self.num_rules * (2 * self.key_width + 2)

    def num_uniforms(self, num_tokens: int) -> int:
        return 4 * num_tokens * self.num_rules  # a key takes one, whatever its width, and so does a value

    def inputs(self, uniforms: tf.Tensor, num_tokens: int) -> tf.Tensor:
        count = num_tokens * self.num_rules
        shape = tf.concat([tf.shape(uniforms)[:2], [num_tokens, self.num_rules]], 0)
        if self.key_width == 1:
            fields = tf.split(standard_normal(uniforms), 4, axis=-1)
        else:
            values = tf.split(standard_normal(uniforms[..., : 2 * count]), 2, axis=-1)
            first, second = (unit_vector(uniforms[..., i * count : (i + 1) * count]) for i in (2, 3))
            fields = [*first, *second, *values]
        tokens = tf.stack([tf.reshape(field, shape) for field in fields], axis=-1)
        return tf.reshape(tokens, tf.concat([shape[:3], [self.token_width]], 0))

    def outputs(self, inputs: tf.Tensor, rule: tf.Tensor) -> tf.Tensor:
        outer, num_tokens = tf.shape(rule)[:2], tf.shape(rule)[2]
        width = 2 * self.key_width + 2
        by_rule = tf.reshape(inputs, [-1, num_tokens * self.num_rules, width])
        rule_of = tf.reshape(rule, [-1, num_tokens, 1])
        others = rule_of + tf.range(num_tokens) * self.num_rules  # [GP, N searching, N searched]
        seen = tf.gather(by_rule, others, batch_dims=1)  # [GP, N, N, width], under the searcher's rule
        own = tf.gather(by_rule, rule_of[..., 0] + tf.range(num_tokens) * self.num_rules, batch_dims=1)
        total = 0.0
        for which, weight in enumerate(("alpha", "beta")):
            keys = slice(which * self.key_width, (which + 1) * self.key_width)
            nearest = self._nearest(own[..., None, keys], seen[..., keys])
            value = tf.gather(seen[..., 2 * self.key_width + which], nearest, batch_dims=2)
            total += self.per_token(weight, rule, inputs.dtype) * tf.reshape(
                value, tf.concat([outer, [num_tokens]], 0)
            )
        return total

    def _nearest(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """Query [GP, N, 1, k] and keys [GP, N, N, k] -> index of each token's nearest other [GP, N]."""
        if self.key_width == 1:
            closeness = -tf.abs(keys - query)[..., 0]
        else:
            closeness = query[..., 0] * keys[..., 0] + query[..., 1] * keys[..., 1]
        itself = tf.eye(tf.shape(keys)[1], dtype=tf.bool)
        return tf.argmax(tf.where(itself, closeness.dtype.min, closeness), axis=-1, output_type=tf.int32)
