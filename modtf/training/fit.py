"""`modtf.train`: `model.fit` on a task's stream."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import keras

from modtf.training.callbacks.checkpoint import CheckpointCallback, Stateful
from modtf.training.callbacks.evaluate import EvaluateCallback
from modtf.training.callbacks.progress import ProgressCallback
from modtf.cell import Evaluation
from modtf.datasets.streaming import stream
from modtf.training.execution import largest_divisor, steps_of_seconds, use_large_programs
from modtf.training.loss import SettingLoss
from modtf.training.optimizer import MemberAdam
from modtf.evaluation.outputs import count_modules
from modtf.evaluation.retracing import no_retracing_advice
from modtf.task import TRAINING_LENGTH, Task, as_members, check_choice, check_integer


def train(
    model: keras.Model,
    task: Task | Sequence[Task],
    steps: int,
    *,
    seed: int | Sequence[int] | None = None,
    batch_size: int = 256,
    learning_rate: float = 1e-4,
    clipnorm: float | str | None = "auto",
    evaluations: int = 20,
    evaluation: Evaluation | EvaluateCallback | None = None,
    checkpoint: str | Path | None = None,
    stateful: Sequence[Stateful] = (),
    callbacks: Sequence[keras.callbacks.Callback] = (),
    steps_per_execution: int | None = None,
    jit_compile: bool | str = True,
    verbose: bool = True,
    label: str | None = None,
) -> keras.callbacks.History:
    """Trains a model, or a population, with Adam on the "train" stream of its task.

    The model is compiled with XLA and runs many steps per call. After every `steps / evaluations`
    steps it is measured on the "validation" stream (`EvaluateCallback`). Under a
    `tf.distribute.MirroredStrategy` with several replicas (build the model in its scope), Keras can do
    neither: both are switched off, with a line that says so.

    Args:
        model: a model of `modtf.build`, or any `keras.Model` that returns `{"target", "activation"}`.
        task: its task, or the list of tasks of a population.
        steps: training steps, each on one batch.
        seed: of the training data; the model's own seeds, or 0, by default.
        learning_rate: of Adam (epsilon 1e-8).
        clipnorm: largest norm of one member's gradient; "auto" is 1.0 for rnn and None else.
        evaluations: how many, evenly spaced; the largest divisor of `steps` not above it is taken.
        evaluation: how much data each reads, or an `EvaluateCallback` to read afterwards.
        checkpoint: a file `*.npz`; a killed run, started again with the same arguments, resumes from it
            and ends with the same weights. It stays when training ends: training again then returns at once.
        stateful: what else the checkpoint must keep (`state()` and `load_state(state)`).
        callbacks: more Keras callbacks.
        steps_per_execution: steps between two returns to Python (progress bar, callbacks, Ctrl-C); by
            default as many as take some seconds on one core, 100 at most.
        verbose: whether to show a progress bar.

    Returns:
        Keras's history: `loss`, `val_loss` and the measures, means over members, one per evaluation.

    Raises:
        ValueError: on an argument out of range, a model with other outputs, or another training's checkpoint.

    Example:
        >>> history = modtf.train(model, task, steps=10_000)
    """
    seeds = seed if seed is not None else _model_seeds(model, task)
    tasks, _, _ = as_members(task, seeds)
    check_integer("steps", steps, 1)
    check_integer("batch_size", batch_size, 1)
    check_integer("evaluations", evaluations, 1)
    num_evaluations = largest_divisor(steps, evaluations)
    per_epoch = steps // num_evaluations
    replicas = getattr(model.distribute_strategy, "num_replicas_in_sync", 1) if _is_tensorflow() else 1
    if batch_size % replicas:
        raise ValueError(f"batch_size={batch_size} must be divisible by the {replicas} replicas.")
    if replicas > 1:
        print(
            f"{replicas} replicas: training without XLA and one step per call (Keras supports neither here)."
        )
        jit_compile, steps_per_execution = False, 1
    if isinstance(clipnorm, str):
        check_choice("clipnorm", clipnorm, ("auto",))
        clipnorm = 1.0 if tasks[0].arch == "rnn" else None
    with model.distribute_strategy.scope() if _is_tensorflow() else contextlib.nullcontext():
        count_modules(model, task)  # before anything is compiled; a user's model is built then
    if steps_per_execution is None:
        num_tokens = batch_size * (TRAINING_LENGTH if tasks[0].is_sequence else 1)
        steps_per_execution = steps_of_seconds(model, num_tokens)
    model.compile(
        optimizer=MemberAdam(learning_rate, num_members=len(tasks), member_clipnorm=clipnorm),
        loss={"target": SettingLoss(tasks[0].setting, dtype=model.variable_dtype)},
        jit_compile=jit_compile,
        steps_per_execution=largest_divisor(per_epoch, steps_per_execution),
    )
    if not isinstance(evaluation, EvaluateCallback):
        evaluation = EvaluateCallback(task, evaluation or Evaluation().smaller(10), per_epoch)
    done = 0
    extra: list[keras.callbacks.Callback] = []
    if checkpoint is not None:
        settings: dict[str, float] = {"steps": steps, "steps_per_epoch": per_epoch, "batch_size": batch_size}
        settings |= {"learning_rate": learning_rate, "clipnorm": clipnorm or 0.0}
        saver = CheckpointCallback(checkpoint, [evaluation, *stateful], settings)
        done = saver.restore(model)
        extra.append(saver)
    if verbose:
        extra.append(ProgressCallback(steps, done * per_epoch, label or model.name))
    data = stream(task, batch_size, "train", seeds, start_step=done * per_epoch)
    data = data.map(lambda features, target: (features, {"target": target}))
    use_large_programs(model, data)
    try:
        with no_retracing_advice():
            return model.fit(
                data,
                epochs=num_evaluations,
                initial_epoch=done,
                steps_per_epoch=per_epoch,
                callbacks=[evaluation, *callbacks, *extra],
                verbose=0,
                shuffle=False,
            )
    finally:
        model.train_function = None  # what the user's own `fit` reads may end


def _is_tensorflow() -> bool:
    return keras.backend.backend() == "tensorflow"


def _model_seeds(model: keras.Model, task: Task | Sequence[Task]):
    seeds = getattr(model, "seeds", None)
    if isinstance(task, Task):
        return seeds[0] if seeds else 0
    return seeds or [0] * len(task)
