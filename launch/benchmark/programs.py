"""What is timed: the compiled step alone, `fit`, the stream, the textbook's `fit`, and the matrix peak."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from modtf.datasets.streaming import stream
from modtf.training.execution import (
    STEPS_PER_EXECUTION,
    steps_per_program,
    training_program,
    use_large_programs,
)
from modtf.launch.benchmark.measure import Run, cpu_seconds
from modtf.launch.benchmark.textbook import TEXTBOOK
from modtf.launch.benchmark.textbook_data import textbook_dataset
from modtf.training.loss import SettingLoss
from modtf.models.base import ModularModel
from modtf.training.optimizer import MemberAdam
from modtf.task import Task

BATCH_SIZE = 256
PEAK_SIZE = 1024
PEAK_FLOPS = 2 * PEAK_SIZE**3
CLIPNORM = {"mlp": None, "mha": None, "rnn": 1.0}


def compile_model(model: ModularModel) -> None:
    """Compiles a model as `modtf.train` does."""
    task = model.tasks[0]
    model.compile(
        optimizer=MemberAdam(1e-4, num_members=model.num_members, member_clipnorm=CLIPNORM[task.arch]),
        loss={"target": SettingLoss(task.setting)},
        jit_compile=True,
        steps_per_execution=STEPS_PER_EXECUTION,
    )


def batches_of(model: ModularModel) -> tf.data.Dataset:
    """The training stream of a model, as `fit` reads it."""
    tasks: Any = model.tasks if model.population else model.tasks[0]
    seeds: Any = model.seeds if model.population else model.seeds[0]
    data = stream(tasks, BATCH_SIZE, "train", seeds)
    return data.map(lambda features, target: (features, {"target": target}))


def step_run(model: ModularModel) -> Run:
    """The bare compiled loop over batches that stay in memory: the cost of the model alone."""
    compile_model(model)
    data = batches_of(model)
    per_program = steps_per_program(data, STEPS_PER_EXECUTION)
    batches = next(iter(data.batch(per_program)))
    model.optimizer.build(model.trainable_variables)
    program = training_program(model)

    @tf.function(autograph=False)
    def loop(times):
        def once(n):
            program(batches)
            return n + 1

        return tf.while_loop(lambda n: n < times, once, [0], parallel_iterations=1)[0]

    def run(steps: int) -> float:
        times = -(-steps // per_program)
        return cpu_seconds(lambda: loop(tf.constant(times)).numpy()) / (times * per_program)

    return run


def data_run(tasks: Task | Sequence[Task], seeds: int | Sequence[int]) -> Run:
    """The stream alone: its batches are taken and dropped.

    It works ahead in the background, and the last batches it made are not taken: so every measurement
    starts and ends a stream of its own, long enough for that to be little.
    """
    data = stream(tasks, BATCH_SIZE, "train", seeds)

    @tf.function
    def draw(iterator, steps):
        for _ in tf.range(steps):
            next(iterator)

    def run(steps: int) -> float:
        total = 4 * steps
        return cpu_seconds(lambda: draw(iter(data), tf.constant(total))) / total

    return run


class _Clock(keras.callbacks.Callback):
    """CPU seconds per step between the first and the last call; starting and ending are not counted."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[tuple[float, int]] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.times.append((time.process_time(), batch))

    def seconds(self) -> float:
        (began, first), (ended, last) = self.times[0], self.times[-1]
        return (ended - began) / (last - first)


def fit_run(model: keras.Model, data: tf.data.Dataset, steps_per_execution: int) -> Run:
    """`fit` of a compiled model, per step."""

    def run(steps: int) -> float:
        executions = max(1, round(steps / steps_per_execution)) + 1
        clock = _Clock()
        total = executions * steps_per_execution
        model.fit(data, steps_per_epoch=total, callbacks=[clock], verbose=0, shuffle=False)
        return clock.seconds()

    return run


def own_fit_run(model: ModularModel, cached: bool) -> Run:
    """`fit` as `modtf.train` calls it, on the stream, or on one batch that stays in memory."""
    data = batches_of(model)
    if cached:
        data = data.take(1).cache().repeat()
    if model.train_function is None:
        use_large_programs(model, data)
    return fit_run(model, data, STEPS_PER_EXECUTION)


def textbook_model(task: Task, variant: str, width: int) -> keras.Model:
    """The textbook model, built and compiled by Keras's defaults."""
    model = TEXTBOOK[task.arch](task, variant, width)
    features, _ = next(iter(textbook_dataset(task, batch_size=2)))
    model(features)  # creates its weights
    optimizer = keras.optimizers.Adam(1e-4, epsilon=1e-8, global_clipnorm=CLIPNORM[task.arch])
    model.compile(optimizer=optimizer, loss="mean_absolute_error")
    return model


def textbook_run(model: keras.Model, task: Task) -> Run:
    """The textbook's `fit`: a Python generator, one step per execution."""
    return fit_run(model, textbook_dataset(task, BATCH_SIZE), steps_per_execution=1)


def peak_runs() -> dict[str, Run]:
    """A large float32 matrix product by each of the libraries in use; the faster one is the core's peak."""
    values = np.random.default_rng(0).standard_normal([PEAK_SIZE, PEAK_SIZE]) / PEAK_SIZE**0.5
    left = tf.constant(values, tf.float32)

    def run_of(multiply: Callable) -> Run:
        @tf.function
        def loop(steps):
            start = [tf.constant(0), left]
            return tf.while_loop(
                lambda n, _: n < steps, lambda n, right: (n + 1, multiply(left, right)), start
            )

        return lambda steps: cpu_seconds(lambda: loop(tf.constant(steps))[1].numpy()) / steps

    compiled = tf.function(tf.matmul, jit_compile=True)
    return {"peak": run_of(tf.matmul), "compiled peak": run_of(lambda a, b: compiled(a, b))}
