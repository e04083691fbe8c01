"""What `fit` calls: several training steps in one compiled program, on one device or several."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from modtf.models.base import ModularModel
from modtf.models.kernels.by_device import on_cpu
from modtf.training.arithmetic import ACCELERATION, step_flops, steps_that_fit
from modtf.training.batches import Batches
from modtf.training.compile import STEPS_PER_EXECUTION, own_loss
from modtf.training.steps import training_program
from modtf.training.strategy import in_shares

SECONDS_FLOPS = 2e11  # floating-point operations that one core does in some seconds


def steps_of_seconds(model: keras.Model, num_tokens: int) -> int:
    """About how many steps on so many tokens take two to four seconds on one core; 1 to 100."""
    step = max(1, step_flops(model.count_params(), num_tokens))  # a model may have no weights
    return max(1, min(STEPS_PER_EXECUTION, int((1 if on_cpu() else ACCELERATION) * SECONDS_FLOPS // step)))


def _train_function(
    model: keras.Model, batches: Batches, steps: int, per_program: int, devices: Sequence[str]
) -> Callable[[Any], dict[str, Any]]:
    """What `fit` calls with an endless iterator to take `steps` steps, `per_program` at a time."""
    receive = hand_back = lambda: None
    if len(devices) > 1:
        receive, program, hand_back = in_shares(model, batches, per_program, devices)
    else:
        program = training_program(model, batches, per_program)

    @tf.function(autograph=False)
    def function(iterator):
        receive()

        def execute(n):
            program(batches.read(iterator, per_program))
            return n + 1

        tf.while_loop(lambda n: n < steps // per_program, execute, [0], parallel_iterations=1)
        hand_back()
        return model.get_metrics_result()

    return function


def can_use_large_programs(model: keras.Model) -> bool:
    """Whether a compiled model can take several steps per program: on TensorFlow, with XLA."""
    return keras.backend.backend() == "tensorflow" and model.jit_compile and not model.run_eagerly


def use_large_programs(model: keras.Model, batches: Batches, devices: Sequence[str] = ()) -> tf.data.Dataset:
    """Makes `fit` take several steps per compiled program; returns the endless dataset to call it with.

    Keras's own starts a program for every step and hands it every weight; for a small model that is a
    fifth of the step. Where it cannot be otherwise (another backend than TensorFlow, no XLA, several
    replicas) Keras is left alone, with batches of the host. `model.train_function = None` gives Keras's own
    back, which can read a dataset that ends. Over several `devices` the members of a population are split.
    """
    large = can_use_large_programs(model)
    if len(devices) > 1 and not (large and isinstance(model, ModularModel) and model.num_members > 1):
        raise ValueError(
            f"{len(devices)} devices were given to share the members of a population: that needs a model of "
            "modtf.build with several members, TensorFlow, XLA, and no tf.distribute strategy."
        )
    if not large:
        return batches.feed(1)
    steps = model.steps_per_execution
    per_program = steps_that_fit(batches.bytes_per_step, steps)
    loss = own_loss(model)  # which keeps what the model was trained with before
    kept = {} if loss is None else loss.programs
    key = (batches.program, steps, per_program, tuple(devices))
    if key not in kept:
        kept[key] = _train_function(model, batches, steps, per_program, devices)
    model.train_function = kept[key]
    return batches.feed(per_program)
