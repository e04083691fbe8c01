"""How a model is compiled for training: the same for `modtf.train`, benchmarks and steps on arrays."""

import keras

from modtf.evaluation.precision import use_precision
from modtf.population import Population
from modtf.protocol import Training
from modtf.training.loss import SettingLoss
from modtf.training.optimizer import MemberAdam

STEPS_PER_EXECUTION = 100  # by then Keras's work between them is lost in the steps


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
    optimizer = MemberAdam(
        training.learning_rate,
        num_members=len(population),
        member_clipnorm=training.clipnorm,
        name="adam",  # it is part of the program; Keras would number it
    )
    model.compile(
        optimizer=optimizer,
        loss={"target": SettingLoss(population.task.setting, dtype=model.variable_dtype)},
        jit_compile=jit_compile,
        steps_per_execution=steps_per_execution,
    )
