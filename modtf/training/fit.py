"""`modtf.train`: `model.fit` on a task's stream."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import keras

from modtf.checks import check_choice, check_integer
from modtf.datasets.streaming import stream
from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.outputs import count_modules
from modtf.evaluation.retracing import no_retracing_advice
from modtf.models.base import ModularModel
from modtf.population import Population
from modtf.protocol import TRAINING_FACTOR, Evaluation, Protocol, Training
from modtf.task import Task
from modtf.training.callbacks.checkpoint import CheckpointCallback
from modtf.training.callbacks.evaluate import EvaluateCallback
from modtf.training.callbacks.progress import ProgressCallback
from modtf.training.compile import compile_model
from modtf.training.execution import largest_divisor, steps_of_seconds, use_large_programs


def train(
    model: keras.Model,
    task: Task | Sequence[Task] | Population,
    steps: int,
    *,
    seed: int | Sequence[int] | None = None,
    batch_size: int = 256,
    learning_rate: float = 1e-4,
    clipnorm: float | str | None = "auto",
    evaluations: int = 20,
    precision: str = "float32",
    evaluation: Evaluation | EvaluateCallback | None = None,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    steps_per_execution: int | None = None,
    jit_compile: bool | str = True,
    verbose: bool = True,
    label: str | None = None,
) -> keras.callbacks.History:
    """Trains a model, or a population, with Adam on the "train" stream of its task.

    The model is compiled with XLA and runs many steps per call. Before the first step, and after every
    `steps / evaluations` steps, it is measured on the "validation" stream (`EvaluateCallback`). Under a
    `tf.distribute.MirroredStrategy` with several replicas (build the model in its scope), Keras can do
    neither: both are switched off, with a line that says so.

    Args:
        model: a model of `modtf.build`, or any `keras.Model` that returns `{"target", "activation"}`, or
            `{"target"}` alone.
        task: its task, or the list of tasks of a population.
        steps: training steps, each on one batch.
        seed: of the training data; the population's or the model's own seeds, or 0, by default.
        learning_rate: of Adam (epsilon 1e-8).
        clipnorm: largest norm of one member's gradient, None for any; "auto" is the published protocol's:
            1.0 for rnn and None for mlp and mha.
        evaluations: how many, evenly spaced; the largest divisor of `steps` not above it is taken.
        precision: "float32", or "tf32" for TensorFloat-32 products on GPUs that have them.
        evaluation: how much data each reads, or an `EvaluateCallback` to read afterwards.
        checkpoint: a file `*.npz`; a killed run, started again with the same arguments, resumes from it
            and ends with the same weights. It stays when training ends: training again then returns at once.
        callbacks: more Keras callbacks; the checkpoint keeps those that have `state()` and
            `load_state(state)`.
        steps_per_execution: steps between two returns to Python (progress bar, callbacks, Ctrl-C); by
            default as many as take some seconds on one core, 100 at most.
        verbose: whether to show a progress bar.

    Returns:
        Keras's history: `loss`, `val_loss`, the measures and the router's penalty, if it has one, means over
        members, one per evaluation after training began.

    Raises:
        ValueError: on an argument out of range, a model with other outputs, or another training's checkpoint.

    Example:
        >>> history = modtf.train(model, task, steps=10_000)
    """
    population = _with_seeds(model, task, seed)
    if isinstance(clipnorm, str):
        check_choice("clipnorm", clipnorm, ("auto",))
        clipnorm = Protocol.published(population.task).training.clipnorm
    training = Training(
        steps=check_integer("steps", steps, 1),
        learning_rate=learning_rate,
        batch_size=check_integer("batch_size", batch_size, 1),
        clipnorm=clipnorm,
        evaluations=largest_divisor(steps, check_integer("evaluations", evaluations, 1)),
        precision=precision,
    )
    per_epoch = steps // training.evaluations
    replicas = getattr(model.distribute_strategy, "num_replicas_in_sync", 1) if _is_tensorflow() else 1
    if batch_size % replicas:
        raise ValueError(f"batch_size={batch_size} must be divisible by the {replicas} replicas.")
    if replicas > 1:
        print(
            f"{replicas} replicas: training without XLA and one step per call (Keras supports neither here)."
        )
        jit_compile, steps_per_execution = False, 1
    with model.distribute_strategy.scope() if _is_tensorflow() else contextlib.nullcontext():
        count_modules(model, population)  # before anything is compiled; a user's model is built then
        if steps_per_execution is None:
            steps_per_execution = steps_of_seconds(model, batch_size * population.family.num_training_tokens)
        at_once = largest_divisor(per_epoch, steps_per_execution)
        compile_model(model, population, training, jit_compile=jit_compile, steps_per_execution=at_once)
    if not isinstance(evaluation, EvaluateCallback):
        sizes = evaluation or Evaluation().smaller(TRAINING_FACTOR)
        evaluation = EvaluateCallback(Evaluator(model, population, sizes, "validation"))
    callbacks, done = [evaluation, *callbacks], 0
    if checkpoint is not None:
        settings: dict[str, float] = {"steps": steps, "steps_per_epoch": per_epoch, "batch_size": batch_size}
        settings |= {"learning_rate": learning_rate, "clipnorm": clipnorm or 0.0}
        saver = CheckpointCallback(checkpoint, callbacks, settings)
        done = saver.restore(model)
        callbacks = [*callbacks, saver]
    if verbose:
        callbacks = [*callbacks, ProgressCallback(steps, done * per_epoch, label or model.name)]
    data = stream(population, batch_size, "train", start_step=done * per_epoch)
    data = data.map(lambda features, target: (features, {"target": target}))
    use_large_programs(model, data)
    try:
        with no_retracing_advice():
            return model.fit(
                data,
                epochs=training.evaluations,
                initial_epoch=done,
                steps_per_epoch=per_epoch,
                callbacks=callbacks,
                verbose=0,
                shuffle=False,
            )
    finally:
        model.train_function = None  # what the user's own `fit` reads may end


def _is_tensorflow() -> bool:
    return keras.backend.backend() == "tensorflow"


def _with_seeds(
    model: keras.Model, task: Task | Sequence[Task] | Population, seed: int | Sequence[int] | None
) -> Population:
    """What the model is trained on; by default with the seeds that it was built with."""
    population = Population.of(task, seed)
    given = seed is not None or isinstance(task, Population)
    if given or not isinstance(model, ModularModel) or len(model.population) != len(population):
        return population
    return replace(population, seeds=model.population.seeds)
