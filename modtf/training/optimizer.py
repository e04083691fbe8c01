"""Optimizers for a population: every member trains as if it were alone."""

from typing import Any

import keras
from keras import ops

from modtf.models.kernels.gradients import noted
from modtf.tasks.protocol import Training
from modtf.xla.switches import replica_context


class MemberOptimizer(keras.optimizers.Optimizer):
    """A mix-in before a Keras optimizer that handles gradients with a leading members axis.

    The population's loss is the mean over members, which divides each member's gradient by their number. The
    optimizer multiplies it back. It clips by the norm over one member's weights; under `tf.distribute` it
    clips after the sum over replicas (Keras clips each replica before it). Weight decay is coupled, as in
    PyTorch: it is part of the gradient (Keras applies it separately).

    With one member a model needs no members axis: the norm covers all its weights.
    """

    def __init__(
        self,
        learning_rate: Any = 1e-4,
        num_members: int = 1,
        member_clipnorm: float | None = None,
        coupled_decay: float = 0.0,
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.num_members = num_members
        self.member_clipnorm = member_clipnorm
        self.coupled_decay = coupled_decay
        self.schedule = learning_rate if isinstance(learning_rate, Cosine) else None

    def start_at(self, learning_rate: float) -> None:
        """Set the learning rate, or that at the first step of a schedule. Compiled programs stay valid."""
        if self.schedule is None:
            self.learning_rate = learning_rate
        else:
            self.schedule.initial_learning_rate.assign(learning_rate)

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        #: the step after which a member's weights were not finite, [P]; 0 if they are finite
        self.diverged_at = self.add_variable(
            [self.num_members], "zeros", "int", "only_first_replica", name="diverged_at"
        )

    def apply(self, grads, trainable_variables=None):
        grads = [None if grad is None else _dense(grad) * self.num_members for grad in grads]
        if self.member_clipnorm is not None:
            grads = self._clip_members(grads)
        if self.coupled_decay:
            variables = self._trainable_variables if trainable_variables is None else trainable_variables
            context = replica_context()
            decay = self.coupled_decay / (1 if context is None else context.num_replicas_in_sync)
            grads = [
                None if grad is None else grad + ops.cast(decay * variable, grad.dtype)
                for grad, variable in zip(grads, variables, strict=True)
            ]
        with noted():  # TensorFlow's sum over replicas has a gradient, even with one replica
            super().apply(grads, trainable_variables)
        self._notice_divergence()

    def _notice_divergence(self):
        """Record the step at which a member diverges. Members are independent, so the others go on."""
        weights = [ops.convert_to_tensor(variable) for variable in self._trainable_variables]
        finite = [self._over_member(ops.all, ops.isfinite(weight)) for weight in weights]
        finite, known = ops.all(ops.stack(finite), axis=0), ops.convert_to_tensor(self.diverged_at)
        first = ops.logical_and(known == 0, ops.logical_not(finite))
        self.diverged_at.assign(ops.where(first, ops.cast(self.iterations, known.dtype), known))

    def _clip_members(self, grads):
        context, replicas = replica_context(), 1
        if context is not None:  # the optimizer sums over the replicas once more
            replicas = context.num_replicas_in_sync
            summed = iter(context.all_reduce("sum", [grad for grad in grads if grad is not None]))
            grads = [None if grad is None else next(summed) for grad in grads]
        squares = sum(self._over_member(ops.sum, ops.square(grad)) for grad in grads if grad is not None)
        # as torch.nn.utils.clip_grad_norm_, with its small constant
        factor = ops.minimum(1.0, self.member_clipnorm / (ops.sqrt(squares) + 1e-6)) / replicas

        def scaled(grad):
            factors = (
                ops.reshape(factor, [-1] + [1] * (len(grad.shape) - 1)) if self.num_members > 1 else factor[0]
            )
            return grad * ops.cast(factors, grad.dtype)

        return [None if grad is None else scaled(grad) for grad in grads]

    def _over_member(self, reduce, values):
        """Reduce all values of each member, [P, ...] -> [P]; for one member, values of any shape."""
        if self.num_members == 1:
            return reduce(values)[None]
        return reduce(values, axis=tuple(range(1, len(values.shape))))

    def get_config(self):
        return {
            **super().get_config(),
            "num_members": self.num_members,
            "member_clipnorm": self.member_clipnorm,
            "coupled_decay": self.coupled_decay,
        }


@keras.saving.register_keras_serializable("modtf")
class MemberAdam(MemberOptimizer, keras.optimizers.Adam):
    """Adam with the paper's epsilon; its other arguments are Keras's."""

    def __init__(self, *args, epsilon: float = 1e-8, **kwargs):
        super().__init__(*args, epsilon=epsilon, **kwargs)


@keras.saving.register_keras_serializable("modtf")
class MemberSGD(MemberOptimizer, keras.optimizers.SGD):
    """Gradient descent with optional momentum, which keeps past steps, each with the learning rate of its
    time."""


@keras.saving.register_keras_serializable("modtf")
class Cosine(keras.optimizers.schedules.CosineDecay):
    """A cosine decay from a variable, so that a program serves every rate; with the arguments of Keras."""

    def __init__(self, initial_learning_rate: float, decay_steps: int, **kwargs):
        rate = keras.Variable(initial_learning_rate, trainable=False, name="initial_learning_rate")
        super().__init__(rate, decay_steps, **kwargs)

    def get_config(self):
        rate = float(ops.convert_to_numpy(self.initial_learning_rate))
        return {**super().get_config(), "initial_learning_rate": rate}


@keras.saving.register_keras_serializable("modtf")
class CosineByEpoch(Cosine):
    """A cosine decay that holds its rate for `held` steps; its other arguments are Keras's."""

    def __init__(self, initial_learning_rate: float, decay_steps: int, held: int = 1, **kwargs):
        super().__init__(initial_learning_rate, decay_steps, **kwargs)
        self.held = held

    def __call__(self, step):
        return super().__call__(step // self.held * self.held)

    def get_config(self):
        return {**super().get_config(), "held": self.held}


def make_optimizer(training: Training, num_members: int) -> MemberOptimizer:
    """Return the optimizer of a protocol, for one training from its first step to its last."""
    rate: Any = training.learning_rate
    if training.schedule == "cosine":
        rate = Cosine(rate, training.steps)
    elif training.schedule == "cosine_epochs":
        rate = CosineByEpoch(rate, training.steps, -(-training.steps // training.evaluations))
    options: dict[str, Any] = {
        "num_members": num_members,
        "member_clipnorm": training.clipnorm,
        "coupled_decay": training.weight_decay,
        "name": training.optimizer,  # part of the program; Keras would add a number
    }
    if training.optimizer == "sgd":
        return MemberSGD(rate, momentum=training.momentum, **options)
    return MemberAdam(rate, **options)


def _dense(grad):
    """Return a dense gradient: TensorFlow gives that of an Embedding as the rows that were read."""
    if keras.backend.backend() != "tensorflow":
        return grad
    import tensorflow as tf

    return tf.convert_to_tensor(grad)
