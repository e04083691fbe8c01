"""How a model is compiled for training: the same for `modtf.train`, benchmarks and steps on arrays."""

from collections.abc import Callable, Hashable
from typing import Any

import keras
from keras import ops

from modtf.models.kernels.by_device import kernels
from modtf.population import Population
from modtf.protocol import Training
from modtf.training.loss import SettingLoss
from modtf.training.optimizer import MemberAdam
from modtf.xla.switches import use_precision

STEPS_PER_EXECUTION = 100  # by then Keras's work between them is lost in the steps


class Compilation:
    """What a model was compiled for, and the programs that were traced since.

    Args:
        optimizer: which a user may have replaced since, with what was compiled.
        settings: what is part of the programs.
    """

    def __init__(self, optimizer: keras.optimizers.Optimizer, settings: Hashable):
        self.optimizer, self.settings = optimizer, settings
        #: training functions, by what tells them apart
        self.programs: dict[Hashable, Callable[[Any], Any]] = {}

    @staticmethod
    def of(model: keras.Model) -> "Compilation | None":
        """A model's, if `compile_model` was the last that has compiled it."""
        loss = model.loss.get("target") if model.compiled and isinstance(model.loss, dict) else None
        found = getattr(loss, "compilation", None)
        return found if found is not None and found.optimizer is model.optimizer else None


def state_of(model: keras.Model) -> list[keras.Variable]:
    """All that a compiled model starts its next step from: weights, and what the optimizer keeps."""
    return [*model.variables, *model.optimizer.variables]


def compile_model(
    model: keras.Model,
    population: Population,
    training: Training,
    *,
    jit_compile: bool | str = True,
    steps_per_execution: int = STEPS_PER_EXECUTION,
) -> None:
    """Gives a model its optimizer and loss; needs no TensorFlow where Keras has another backend.

    A model that has been compiled so before keeps what was traced: its optimizer begins anew.

    Args:
        model: a model of `modtf.build`, or any `keras.Model` that returns `{"target", "activation"}`; built.
        population: what it is trained on.
        training: the learning rate, the largest norm of one member's gradient, and the precision, which is
            then this process's.
        jit_compile: whether XLA compiles the step.
        steps_per_execution: steps between two returns to Python; it must divide those of an epoch.

    Example:
        >>> compile_model(model, Population.of(task), Protocol.published(task).training)
        >>> model.train_on_batch(features, {"target": target})
    """
    use_precision(training.precision)
    setting, clipnorm = population.task.setting, training.clipnorm
    settings = (setting, len(population), clipnorm, training.precision, jit_compile, kernels())
    before = Compilation.of(model)
    if before is not None and before.settings == settings:
        for variable in before.optimizer.variables:
            variable.assign(ops.zeros_like(variable))
        before.optimizer.learning_rate = training.learning_rate
        model.steps_per_execution = steps_per_execution
        return
    optimizer = MemberAdam(
        training.learning_rate,
        num_members=len(population),
        member_clipnorm=clipnorm,
        name="adam",  # it is part of the program; Keras would number it
    )
    loss = SettingLoss(setting, dtype=model.variable_dtype)
    loss.compilation = Compilation(optimizer, settings)
    model.compile(
        optimizer=optimizer,
        loss={"target": loss},
        jit_compile=jit_compile,
        steps_per_execution=steps_per_execution,
    )
