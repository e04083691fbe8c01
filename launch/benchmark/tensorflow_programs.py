"""Programs for TensorFlow: training as `fit` calls it, `fit` itself, the stream, and an evaluation."""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from modtf.base.extras import install
from modtf.datasets.streaming import stream
from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.programs import programs_of
from modtf.launch.benchmark.timing import BATCH_SIZE, Clock, Run, StepProgram, run_of, timed
from modtf.models.base import ModularModel
from modtf.tasks.population import Population
from modtf.tasks.protocol import MIXED, Protocol, Training
from modtf.training.arithmetic import STEPS_PER_PROGRAM, steps_that_fit
from modtf.training.batches import HostBatches
from modtf.training.compile import compile_model
from modtf.training.execution import can_use_large_programs, training_program, use_large_programs
from modtf.training.fit import training_batches
from modtf.training.machine import accelerators, processor_name

EVALUATION_FACTOR = 10  # sizes and training steps of the paper are divided by it
SOFTWARE = f"tensorflow {tf.__version__}, keras {keras.__version__}"
_DUMPS: list[Path] = []  # where XLA writes its memory reports

trace = tf.profiler.experimental.Profile  #: writes the profiler's trace of what runs within it, to a folder


def report_memory(folder: str) -> None:
    """Make XLA report its programs' memory in a folder. Call it before the first compilation."""
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_dump_to={folder}".strip()
    _DUMPS.append(Path(folder))


def find_device(kind: str) -> str:
    """Return the device that programs run on; raise `ValueError` if there is none of this kind."""
    if kind == "cpu":
        return processor_name()
    if not tf.config.list_physical_devices(kind.upper()):
        raise ValueError(
            f"--device={kind}: TensorFlow {tf.__version__} finds no such device. Install it with CUDA "
            f"({install('cuda')}) and check that nvidia-smi lists the device. --device=cpu runs the same "
            "programs on the CPU."
        )
    return accelerators()[0]


@contextlib.contextmanager
def step_program(model: ModularModel, training: Training, data: str, clock: Clock) -> Iterator[StepProgram]:
    """Return a model's training: with data of "memory" the step alone, else as `fit` calls it."""
    compile_model(model, model.population, training)
    model.optimizer.build(model.trainable_variables)
    call, count = _from_memory(model) if data == "memory" else _as_fit_does(model, data)
    for folder in _DUMPS:
        shutil.rmtree(folder)
        folder.mkdir()
    with contextlib.nullcontext() if data == "memory" else programs_of(model):
        first, again = (timed(clock, partial(call, 1)) for _ in range(2))
        yield StepProgram(call, count, first - again, _largest_program())


def _from_memory(model: ModularModel) -> tuple[Callable[[int], object], int]:
    source = HostBatches(stream(model.population, BATCH_SIZE, "train"))
    if not can_use_large_programs(model):
        model.steps_per_execution = 1
        model.make_train_function(force=True)
        return _calls(model, iter(source.dataset.take(1).cache().repeat())), 1
    count = steps_that_fit(source.bytes_per_step, STEPS_PER_PROGRAM)
    batches, program = source.read(iter(source.dataset), count), training_program(model, source, count)

    @tf.function(autograph=False)
    def loop(times):
        def once(n):
            program(batches)
            return n + 1

        return tf.while_loop(lambda n: n < times, once, [0], parallel_iterations=1)[0]

    return lambda times: loop(tf.constant(times)).numpy(), count


def _calls(model: ModularModel, iterator: Iterator) -> Callable[[int], object]:
    """Return a function that calls `fit`'s training program n times."""
    program = model.train_function

    def call(times: int) -> None:
        for _ in range(times):
            program(iterator)
        model.optimizer.iterations.numpy()  # which waits for the steps that count it

    return call


def _as_fit_does(model: ModularModel, data: str) -> tuple[Callable[[int], object], int]:
    model.steps_per_execution = STEPS_PER_PROGRAM
    batches = training_batches(model, model.population, BATCH_SIZE, data=data)
    return _calls(model, iter(use_large_programs(model, batches))), STEPS_PER_PROGRAM


def _largest_program() -> int | None:
    """Return the bytes of the largest program compiled since the folder was empty; None without a report."""
    reports = [report for folder in _DUMPS for report in folder.glob("*memory-usage-report.txt")]
    sizes = [re.search(r"Total bytes used: (\d+)", report.read_text()) for report in reports]
    return max((int(size[1]) for size in sizes if size), default=None)


def data_run(population: Population, clock: Clock) -> Run:
    """Return a run of the stream alone, whose batches are dropped.

    The stream prefetches in the background. So every measurement uses a new stream, which is long enough
    for the unused batches not to matter.
    """
    data = stream(population, BATCH_SIZE, "train")

    @tf.function
    def draw(iterator, steps):
        for _ in tf.range(steps):
            next(iterator)

    run = run_of(clock, lambda steps: draw(iter(data), tf.constant(steps)))
    return lambda steps: run(4 * steps)


def peak_calls(precision: str, size: int) -> dict[str, Callable[[int], object]]:
    """Return, for each library, a function that multiplies square matrices n times, in the precision of
    `step_program`. The faster library gives the peak."""
    values = np.random.default_rng(0).standard_normal([size, size]) / size**0.5
    left = tf.constant(values, "bfloat16" if precision == MIXED else "float32")

    def multiply(times, left):
        def once(n, right):
            return n + 1, left @ right

        _, product = tf.while_loop(lambda n, _: n < times, once, [tf.constant(0), left])
        return product[0, 0]  # whose value is read back

    def call_of(jit_compile: bool) -> Callable[[int], object]:
        loop = tf.function(multiply, jit_compile=jit_compile, autograph=False)
        return lambda times: loop(tf.constant(times), left).numpy()

    return {"peak": call_of(False), "compiled peak": call_of(True)}


def fit_run(model: keras.Model, data: tf.data.Dataset, clock: Clock) -> Run:
    """Return a run of a compiled model's `fit`, timed from the end of its first execution to its last."""
    at_once = model.steps_per_execution

    def run(steps: int) -> float:
        ends: list[tuple[float, int]] = []
        noted = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: ends.append((clock(), batch))
        )
        total = at_once * (max(1, round(steps / at_once)) + 1)
        model.fit(data, steps_per_epoch=total, callbacks=[noted], verbose=0, shuffle=False)
        (began, first), (ended, last) = ends[0], ends[-1]
        return (ended - began) / (last - first)

    return run


def own_fit_run(model: ModularModel, clock: Clock, cached: bool) -> Run:
    """Run `fit` as `modtf.train` does, on the stream, or on one batch that stays in memory."""
    data = HostBatches(stream(model.population, BATCH_SIZE, "train")).dataset
    if cached:
        data = data.take(1).cache().repeat()
    if model.train_function is None:
        use_large_programs(model, HostBatches(data))
    return fit_run(model, data, clock)


def evaluation_costs(model: ModularModel, training: Training, clock: Clock) -> dict[str, float]:
    """Return the seconds of an evaluation and of its training, at a tenth of the published sizes."""
    sizes = Protocol.published(model.population.task).evaluation.smaller(EVALUATION_FACTOR, None)
    tiny = replace(sizes, batches=1, tokens=1, tokens_per_draw=1)
    evaluator = Evaluator(model, model.population, sizes)
    compilation = timed(clock, evaluator.on(tiny, "test").run)
    evaluation = timed(clock, evaluator.run)
    with step_program(model, training, "memory", clock) as program:
        step = run_of(clock, program.call, program.steps)
        taken = training.steps // EVALUATION_FACTOR * step(max(2, int(0.3 / step(2))))
    return {
        "evaluation_s": evaluation,
        "evaluation_compile_s": compilation,
        "training_s": taken,
        "evaluation_share": evaluation / taken,
    }
