"""One training: compile a model, restore its checkpoint, open its batches; then Keras's `fit`."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
from etils import epy

from modtf.base.words import progress_bar
from modtf.datasets.device import DeviceStream
from modtf.evaluation.batches import choose_place
from modtf.evaluation.programs import programs_of
from modtf.tasks.population import Population
from modtf.tasks.protocol import Training
from modtf.training.arithmetic import epochs_of, largest_divisor, warn_of_few_evaluations
from modtf.training.batches import Batches, DeviceBatches, HostBatches, Stream
from modtf.training.callbacks.checkpoint import CheckpointCallback, identity_of, skip_steps
from modtf.training.callbacks.evaluate import BestWeights, EvaluateCallback
from modtf.training.compile import compile_model
from modtf.training.execution import can_use_large_programs, steps_of_seconds, use_large_programs

with epy.lazy_imports():  # JAX does without TensorFlow
    from modtf.datasets import streaming


def fit_model(
    model: keras.Model,
    population: Population,
    training: Training,
    *,
    data: str = "auto",
    devices: Sequence[str] = (),
    checkpoint: str | Path | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    steps_per_execution: int | None = None,
    jit_compile: bool | str = True,
    verbose: bool = True,
    label: str | None = None,
    batches: Stream = None,
    loss: Any = None,
    whose: Mapping[str, Any] | None = None,
) -> keras.callbacks.History:
    """Call `model.fit`, for `modtf.train` and every stage of a trainer; return its history.

    Arguments are checked. The evaluation is the first callback. `batches` replace the task's "train" stream,
    see `TrainerContext.fit`; `loss` is that of `compile_model`. `whose`, JSON-able, is added to the identity
    of the checkpoint. On Ctrl-C and `SystemExit` the checkpoint is written.
    """
    if any(isinstance(one, EvaluateCallback | BestWeights) for one in callbacks):
        warn_of_few_evaluations(training.steps, training.evaluations, training.tail)
    epochs, *_ = epochs_of(training)
    per_epoch = training.steps // epochs
    _compile(model, population, training, per_epoch, steps_per_execution, jit_compile, loss)
    saver, done, begun = None, 0, 0  # finished epochs, and finished steps of the next one
    if checkpoint is not None:
        identity = identity_of(model, population, training, **(whose or {}))
        saver = CheckpointCallback(checkpoint, callbacks, identity)
        done, begun = saver.restore(model), saver.begun
        callbacks = [*callbacks, saver]
    if verbose:
        callbacks = [*callbacks, ProgressCallback(training.steps, done * per_epoch, label or model.name)]
    if begun:
        model.steps_per_execution = math.gcd(model.steps_per_execution, begun)
        model.train_function = None  # a kept function takes another number of steps
    first = done * per_epoch + begun
    read = training_batches(model, population, training.batch_size, first, data, batches)
    elements = use_large_programs(model, read, devices)
    if begun:
        skip_steps(model, begun)
    try:
        with programs_of(model):
            return model.fit(
                elements,
                epochs=epochs,
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
        if begun or can_use_large_programs(model):
            model.train_function = None  # it may skip steps, and cannot read a finite dataset


def _compile(
    model: keras.Model,
    population: Population,
    training: Training,
    per_epoch: int,
    steps_per_execution: int | None,
    jit_compile: bool | str,
    loss: Any,
) -> None:
    """Compile a model. With several replicas: without XLA, and with one step per call."""
    if training.dtype and model.dtype_policy.name != training.dtype:
        raise ValueError(
            f"precision={training.precision!r} needs a model with dtype={training.dtype!r}, received one "
            f"with {model.dtype_policy.name!r}. Build it with that dtype."
        )
    replicas = getattr(getattr(model, "distribute_strategy", None), "num_replicas_in_sync", 1)
    if training.batch_size % replicas:
        raise ValueError(
            f"batch_size={training.batch_size} is not valid; expected a multiple of {replicas}, the number "
            "of replicas."
        )
    if replicas > 1:
        print(
            f"{replicas} replicas: training runs without XLA and one step per call, because Keras supports "
            "neither XLA nor several steps with replicas."
        )
        jit_compile, steps_per_execution = False, 1
    with scope_of(model):
        if steps_per_execution is None:
            tokens = population.family.num_tokens(population.task)
            steps_per_execution = steps_of_seconds(model, training.batch_size * tokens)
        at_once = largest_divisor(per_epoch, steps_per_execution)
        compile_model(
            model, population, training, jit_compile=jit_compile, steps_per_execution=at_once, loss=loss
        )


def training_batches(
    model: keras.Model,
    population: Population,
    batch_size: int,
    start_step: int = 0,
    data: str = "auto",
    batches: Stream = None,
) -> Batches:
    """Return the "train" stream from a step on, made where `data` says; or `batches`, if they are given."""
    if batches is not None:
        return HostBatches(batches(start_step) if callable(batches) else batches.skip(start_step))
    why_not = None if can_use_large_programs(model) else "training runs without XLA"
    if choose_place(data, population.family, why_not) == "device":
        return DeviceBatches(DeviceStream(population, batch_size), start_step)
    return HostBatches(streaming.stream(population, batch_size, "train", start_step=start_step))


def scope_of(model: keras.Model) -> contextlib.AbstractContextManager:
    """Return the scope in which the model was built."""
    strategy = getattr(model, "distribute_strategy", None)  # None with another backend than TensorFlow
    return contextlib.nullcontext() if strategy is None else strategy.scope()


def check_callbacks(callbacks: Any) -> None:
    """Raise `ValueError` unless it is a list of Keras callbacks."""
    listed = isinstance(callbacks, Sequence) and not isinstance(callbacks, str)
    if not listed or not all(isinstance(one, keras.callbacks.Callback) for one in callbacks):
        raise ValueError(
            f"callbacks={callbacks!r} is not valid; expected a list of keras.callbacks.Callback."
        )


class ProgressCallback(keras.callbacks.Callback):
    """Steps, speed, time left, the running loss and the last evaluation, on one line.

    `done` of the `total` steps were taken before a run that resumes. `label` names the training.
    """

    def __init__(self, total: int, done: int = 0, label: str = ""):
        super().__init__()
        self.total, self.done, self.label = total, done, label
        self._shown: dict[str, str] = {}

    def on_train_begin(self, logs=None):
        how: dict[str, Any] = {"unit": "step", "smoothing": 0.1, "delay": 0, "postfix": "compiling"}
        self._bar = progress_bar(total=self.total, initial=self.done, desc=self.label, **how)

    def on_epoch_begin(self, epoch, logs=None):
        self._last = -1

    def on_train_batch_end(self, batch, logs=None):
        self._bar.update(batch - self._last)
        self._last = batch
        self._show("loss", logs)

    def on_epoch_end(self, epoch, logs=None):
        self._show("val_loss", logs)

    def on_train_end(self, logs=None):
        self._bar.close()

    def _show(self, name, logs):
        if logs and name in logs:
            self._shown[name] = f"{float(logs[name]):.4f}"
        self._bar.set_postfix(self._shown, refresh=False)
