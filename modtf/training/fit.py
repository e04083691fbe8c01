"""`modtf.train`: `model.fit` on a task's stream."""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras

from modtf.checks import check_choice, check_integer, check_names, check_type
from modtf.datasets.device import DeviceStream
from modtf.datasets.streaming import stream
from modtf.evaluation.data_place import choose_place
from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.outputs import check_is_model, count_modules
from modtf.evaluation.programs import programs_of
from modtf.files import check_file_writable
from modtf.models.base import ModularModel
from modtf.population import Population
from modtf.protocol import PLACES, TRAINING_FACTOR, Evaluation, Protocol, Training
from modtf.task import Task
from modtf.training.arithmetic import largest_divisor
from modtf.training.batches import Batches, DeviceBatches, HostBatches
from modtf.training.callbacks.checkpoint import CheckpointCallback, skip_steps
from modtf.training.callbacks.evaluate import EvaluateCallback
from modtf.training.callbacks.progress import ProgressCallback
from modtf.training.compile import compile_model
from modtf.training.execution import (
    can_use_large_programs,
    steps_of_seconds,
    use_large_programs,
)


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
    data: str = "auto",
    devices: Sequence[str] = (),
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
        precision: "float32", or "tf32" for TensorFloat-32 products on GPUs that have them. A model that was
            built with dtype="mixed_bfloat16" is trained with that precision, and needs not say so.
        data: where it is made: "host"; "device", by the compiled program itself, from the same random bits;
            "auto", the device on an accelerator and the host on a CPU. An evaluation that is given as a
            callback has its own.
        devices: names of devices, such as "GPU:0": each trains a share of a population's members, and they
            never wait for each other. The model holds all members whenever `fit` returns to Python, so
            callbacks, checkpoints and evaluations, which run on the default device, see one population.
        evaluation: how much data each reads, or an `EvaluateCallback` to read afterwards.
        checkpoint: a file `*.npz`; a killed run, started again with the same arguments, resumes from it
            and ends with the same weights. It is written after every evaluation, and when training is
            interrupted by Ctrl-C or `SystemExit`; the one before it is kept beside it, `*.previous.npz`, and
            used where it is damaged. It stays when training ends: training again then returns at once.
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
    check_is_model(model)
    population = _with_seeds(model, task, seed)
    check_choice("data", data, PLACES)
    if evaluation is not None and not isinstance(evaluation, EvaluateCallback):
        check_type("evaluation", evaluation, Evaluation)
    if checkpoint is not None:
        check_file_writable(checkpoint, "checkpoint")
    devices = check_names("devices", devices)
    _check_callbacks(callbacks)
    if steps_per_execution is not None:
        check_integer("steps_per_execution", steps_per_execution, 1)
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
    if training.dtype and model.dtype_policy.name != training.dtype:
        raise ValueError(
            f"precision={precision!r} needs a model that was built with dtype={precision!r}; "
            f"this one's is {model.dtype_policy.name!r}."
        )
    steps, batch_size = training.steps, training.batch_size  # plain integers
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
        sizes = Evaluation().smaller(TRAINING_FACTOR) if evaluation is None else evaluation
        evaluation = EvaluateCallback(Evaluator(model, population, sizes, "validation", data=data))
    callbacks, done, saver = [evaluation, *callbacks], 0, None
    if checkpoint is not None:
        settings: dict[str, float] = {"steps": steps, "steps_per_epoch": per_epoch, "batch_size": batch_size}
        settings |= {"learning_rate": learning_rate, "clipnorm": clipnorm or 0.0}
        saver = CheckpointCallback(checkpoint, callbacks, settings)
        done = saver.restore(model)
        callbacks = [*callbacks, saver]
    begun = saver.begun if saver is not None else 0  # steps of the epoch after those done
    if verbose:
        callbacks = [*callbacks, ProgressCallback(steps, done * per_epoch, label or model.name)]
    if begun:
        model.steps_per_execution = math.gcd(model.steps_per_execution, begun)
    batches = training_batches(model, population, batch_size, done * per_epoch + begun, data)
    elements = use_large_programs(model, batches, devices)
    if begun:
        skip_steps(model, begun)
    try:
        with programs_of(model):
            return model.fit(
                elements,
                epochs=training.evaluations,
                initial_epoch=done,
                steps_per_epoch=per_epoch,
                callbacks=callbacks,
                verbose=0,
                shuffle=False,
            )
    except (KeyboardInterrupt, SystemExit):
        if saver is not None:
            saver.save_begun()
        raise
    finally:
        model.train_function = None  # what the user's own `fit` reads may end


def training_batches(
    model: keras.Model, population: Population, batch_size: int, start_step: int = 0, data: str = "auto"
) -> Batches:
    """The "train" stream from a step on, made where `data` says, for a compiled model."""
    why_not = None if can_use_large_programs(model) else "training runs without XLA"
    if choose_place(data, population.family, why_not) == "device":
        return DeviceBatches(DeviceStream(population, batch_size), start_step)
    made = stream(population, batch_size, "train", start_step=start_step)
    return HostBatches(made.map(lambda features, target: (features, {"target": target})))


def _check_callbacks(callbacks: Any) -> None:
    listed = isinstance(callbacks, Sequence) and not isinstance(callbacks, str)
    if not listed or not all(isinstance(one, keras.callbacks.Callback) for one in callbacks):
        raise ValueError(
            f"callbacks={callbacks!r} is not valid; expected a list of keras.callbacks.Callback."
        )


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
