"""The compilation of a model for training, shared by `modtf.train`, benchmarks and steps on arrays."""

from dataclasses import replace
from typing import Any

import keras
from keras import ops

from modtf.evaluation.elementwise import loss_of
from modtf.evaluation.programs import Compiled, compiled_of, with_xla
from modtf.models.kernels.by_device import kernels
from modtf.tasks.population import Population
from modtf.tasks.protocol import Training
from modtf.training.optimizer import make_optimizer
from modtf.xla.switches import use_precision

STEPS_PER_EXECUTION = 100  # enough to make Keras's work between two programs negligible


@keras.saving.register_keras_serializable("modtf")
class SettingLoss(keras.losses.Loss):
    """The loss of a setting, such as L1 for regression, averaged over everything.

    A population's loss is therefore the mean over its members; `MemberAdam` undoes the division.
    """

    def __init__(self, setting: str, name: str = "loss", **kwargs):
        super().__init__(name=name, **kwargs)
        self.setting = setting

    def call(self, y_true, y_pred):
        return loss_of(self.setting)(y_true, y_pred)

    def get_config(self):
        return {**super().get_config(), "setting": self.setting}


def training_variables(model: keras.Model) -> list[keras.Variable]:
    """Return everything that the next step of a compiled model depends on: weights and optimizer state."""
    return [*model.variables, *model.optimizer.variables]


def program_variables(model: keras.Model) -> list[keras.Variable]:
    """Return everything that a program of a compiled model reads; a checkpoint needs no schedule's rate."""
    schedule = getattr(model.optimizer, "schedule", None)
    return [*training_variables(model), *([schedule.initial_learning_rate] if schedule else [])]


def compile_model(
    model: keras.Model,
    population: Population,
    training: Training,
    *,
    jit_compile: bool | str = True,
    steps_per_execution: int = STEPS_PER_EXECUTION,
    loss: Any = None,
) -> None:
    """Give a model its optimizer and loss; needs no TensorFlow with another backend.

    A model that was compiled with the same settings keeps its traced functions. Its optimizer starts anew.

    Args:
        model: a built model of `modtf.build`, or any `keras.Model` that returns `{"target", "activation"}`.
        training: the settings; its precision is then set for this process.
        jit_compile: whether XLA compiles the step. An architecture may rule this out on a CPU.
        steps_per_execution: steps between two returns to Python; it must divide the steps of an epoch.
        loss: of the output "target", or a dict by output; the loss of the setting by default.

    Example:
        >>> compile_model(model, Population.of(task), Protocol.published(task).training)
        >>> model.train_on_batch(features, {"target": target})
    """
    use_precision(training.precision)
    jit_compile = with_xla(model, jit_compile)
    setting = population.task.setting
    trained = tuple(variable.path for variable in model.trainable_variables)  # other weights may be frozen
    same = replace(training, learning_rate=1.0)
    if training.schedule is None:  # then the programs do not depend on the length
        same = replace(same, steps=1, batch_size=1, evaluations=1, tail=0)
    losses = loss if isinstance(loss, dict) else {"target": loss}
    settings = setting, len(population), jit_compile, kernels(), trained, same, tuple(losses.items())
    before = compiled_of(model)
    if before is not None and before.settings == settings:
        for variable in model.optimizer.variables:
            variable.assign(ops.zeros_like(variable))
        model.optimizer.start_at(training.learning_rate)
        if model.steps_per_execution != steps_per_execution:
            model.steps_per_execution, model.train_function = steps_per_execution, None
        return
    optimizer = make_optimizer(training, len(population))
    if loss is None:
        losses = {"target": SettingLoss(setting, dtype=model.variable_dtype)}
    model.compiled_for_training = Compiled(optimizer, losses, settings, training.precision)
    model.compile(
        optimizer=optimizer, loss=losses, jit_compile=jit_compile, steps_per_execution=steps_per_execution
    )
    optimizer.build(model.trainable_variables)  # a step that makes variables would be traced twice
