"""Adam for a population: every member is trained as if alone."""

import keras
from keras import ops

from modtf.models.kernels.gradients import noted


@keras.saving.register_keras_serializable("modtf")
class MemberAdam(keras.optimizers.Adam):
    """Adam whose variables have a leading members axis.

    The population's loss is the mean over members, so each member's gradient arrives divided by their
    number; it is multiplied back here. Clipping is by the norm over one member's weights, and under
    `tf.distribute` after the sum over replicas (Keras's own clips each replica before it).

    `diverged_at` [P] holds the step after which a member's weights were no finite numbers any more, or 0.

    Args:
        num_members: P; 1 for a model without members axis, whose norm is then over all its weights.
        member_clipnorm: the largest gradient norm of a member; None for no clipping.
    """

    def __init__(
        self,
        learning_rate=1e-4,
        num_members: int = 1,
        member_clipnorm: float | None = None,
        epsilon: float = 1e-8,
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, epsilon=epsilon, **kwargs)
        self.num_members = num_members
        self.member_clipnorm = member_clipnorm

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        #: the step after which a member's weights were no numbers any more, 0 if they are, [P]
        self.diverged_at = self.add_variable(
            [self.num_members], "zeros", "int", "only_first_replica", name="diverged_at"
        )

    def apply(self, grads, trainable_variables=None):
        grads = [None if grad is None else _dense(grad) * self.num_members for grad in grads]
        if self.member_clipnorm is not None:
            grads = self._clip_members(grads)
        with noted():  # TensorFlow's sum over replicas, of one too, has a gradient
            super().apply(grads, trainable_variables)
        self._notice_divergence()

    def _notice_divergence(self):
        """Members never meet, so one whose weights are no numbers does the others no harm."""
        weights = [ops.convert_to_tensor(variable) for variable in self._trainable_variables]
        finite = [self._over_member(ops.all, ops.isfinite(weight)) for weight in weights]
        finite, known = ops.all(ops.stack(finite), axis=0), ops.convert_to_tensor(self.diverged_at)
        first = ops.logical_and(known == 0, ops.logical_not(finite))
        self.diverged_at.assign(ops.where(first, ops.cast(self.iterations, known.dtype), known))

    def _clip_members(self, grads):
        grads, replicas = _sum_over_replicas(grads)
        squares = sum(self._member_squares(grad) for grad in grads if grad is not None)
        # as torch.nn.utils.clip_grad_norm_, the small number included
        factor = ops.minimum(1.0, self.member_clipnorm / (ops.sqrt(squares) + 1e-6)) / replicas

        def scaled(grad):
            if self.num_members == 1:
                return grad * ops.cast(factor[0], grad.dtype)
            return grad * ops.cast(ops.reshape(factor, [-1] + [1] * (len(grad.shape) - 1)), grad.dtype)

        return [None if grad is None else scaled(grad) for grad in grads]

    def _member_squares(self, grad):
        """Sum of squares of a gradient per member [P]."""
        return self._over_member(ops.sum, ops.square(grad))

    def _over_member(self, reduce, values):
        """Reduces all values of each member, [P, ...] -> [P]; for one member, of any shape."""
        if self.num_members == 1:
            return reduce(values)[None]
        return reduce(values, axis=tuple(range(1, len(values.shape))))

    def get_config(self):
        return {
            **super().get_config(),
            "num_members": self.num_members,
            "member_clipnorm": self.member_clipnorm,
        }


def _dense(grad):
    """A gradient with which one can compute: TensorFlow gives an Embedding's as the rows that were read."""
    if keras.backend.backend() != "tensorflow":
        return grad
    import tensorflow as tf

    return tf.convert_to_tensor(grad)


def _sum_over_replicas(grads):
    """Gradients summed over replicas, and the number of replicas.

    The optimizer will sum over replicas once more, so the caller divides by their number.
    """
    if keras.backend.backend() != "tensorflow":
        return grads, 1
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return grads, 1
    present = [grad for grad in grads if grad is not None]
    summed = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, present))
    return [None if grad is None else next(summed) for grad in grads], context.num_replicas_in_sync
