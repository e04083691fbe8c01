"""What is timed with TensorFlow: the compiled step alone, `fit`, the stream, the textbook's `fit`, and the
matrix peak."""

import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from modtf.datasets.families.base import data_class
from modtf.datasets.streaming import stream
from modtf.launch.benchmark.measure import BATCH_SIZE, PEAK_SIZE, Run, cpu_seconds
from modtf.launch.benchmark.textbook import MIXTURES, TEXTBOOK
from modtf.launch.benchmark.textbook_data import LABELS, textbook_dataset
from modtf.models.architectures import ARCHITECTURES
from modtf.models.base import ModularModel
from modtf.population import Population
from modtf.protocol import Protocol
from modtf.task import Task
from modtf.training.batches import HostBatches
from modtf.training.compile import STEPS_PER_EXECUTION, compile_model
from modtf.training.execution import steps_per_program, training_program, use_large_programs


def batches_of(population: Population) -> tf.data.Dataset:
    """The training stream, as `fit` reads it."""
    data = stream(population, BATCH_SIZE, "train")
    return data.map(lambda features, target: (features, {"target": target}))


def step_run(model: ModularModel) -> Run:
    """The bare compiled loop over batches that stay in memory: the cost of the model alone."""
    compile_model(model, model.population, Protocol.published(model.population.task).training)
    source = HostBatches(batches_of(model.population))
    per_program = steps_per_program(source, STEPS_PER_EXECUTION)
    batches = source.read(iter(source.dataset), per_program)
    model.optimizer.build(model.trainable_variables)
    program = training_program(model, source, per_program)

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


def data_run(population: Population) -> Run:
    """The stream alone: its batches are taken and dropped.

    It works ahead in the background, and the last batches it made are not taken: so every measurement
    starts and ends a stream of its own, long enough for that to be little.
    """
    data = stream(population, BATCH_SIZE, "train")

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
    data = batches_of(model.population)
    if cached:
        data = data.take(1).cache().repeat()
    if model.train_function is None:
        use_large_programs(model, HostBatches(data))
    return fit_run(model, data, STEPS_PER_EXECUTION)


def has_textbook(task: Task, variant: str) -> bool:
    """Whether the task's data, its architecture and the variant are written in textbook form."""
    architecture = ARCHITECTURES[task.family.architecture]
    return data_class(task.family) in LABELS and architecture in TEXTBOOK and variant in MIXTURES


def textbook_model(task: Task, variant: str, width: int) -> keras.Model:
    """The textbook form of `modtf.build(task, variant, width)`, built and compiled by Keras's defaults.

    Raises:
        ValueError: where there is none.
    """
    if not has_textbook(task, variant):
        raise ValueError(
            f"There is no textbook form of {task.arch} with variant={variant!r}; there is one of the "
            f"published architectures with {', '.join(MIXTURES)}."
        )
    model = TEXTBOOK[ARCHITECTURES[task.family.architecture]](task, variant, width)
    features, _ = next(iter(textbook_dataset(task, batch_size=2)))
    model(features)  # creates its weights
    clipnorm = Protocol.published(task).training.clipnorm
    optimizer = keras.optimizers.Adam(1e-4, epsilon=1e-8, global_clipnorm=clipnorm)
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
