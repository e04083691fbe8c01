"""Programs that `bench.py` measures, on each backend of Keras, and the timing of programs that take turns."""

import contextlib
import gc
import math
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from runpy import run_path
from statistics import median
from typing import Any

import numpy as np
from etils import epy

from modtf.tasks.population import Population
from modtf.tasks.protocol import MIXED

with epy.lazy_imports():  # a process needs one backend
    import jax
    import keras
    import tensorflow as tf

    from modtf.datasets import device, streaming
    from modtf.evaluation import programs
    from modtf.training import arithmetic, batches, compile, execution, fit, scan

Clock = Callable[[], float]
Call = Callable[[int], object]  # runs n programs, and returns when all are done
Run = Callable[[int], float]  # does about n steps and returns the seconds of one
#: a compiled program of several steps: its call, its steps, seconds of compilation, bytes if they are known
Program = tuple[Call, int, float, int | None]

BATCH_SIZE = 256
ENOUGH, SETTLING = 3, 0.05  # measurements of a slow program; seconds between measurements
MEMORY = "memory"  # where the batches of CPU time lie


def timed(clock: Clock, action: Callable[[], object]) -> float:
    """Return the clock's time of an action that returns when all its work is done."""
    began = clock()
    action()
    return clock() - began


def run_of(clock: Clock, call: Call, steps: int = 1) -> Run:
    """Return a timed run of a function that takes `steps` steps per call, and waits for the last."""
    return lambda wanted: timed(clock, lambda: call(-(-wanted // steps))) / (-(-wanted // steps) * steps)


def interleave(runs: Mapping[str, Run], repeats: int, seconds: float) -> dict[str, list[float]]:
    """Return the seconds per step by name, measured in turn (A B C A B C ...) for equal conditions.

    Entry i of every name is from the same round. Slow programs are measured `ENOUGH` times.
    """
    steps = {name: calibrate(run, seconds) for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for _, (name, run) in product(range(repeats), runs.items()):
        if len(samples[name]) < ENOUGH or steps[name] * sum(samples[name]) < 2 * repeats * seconds:
            gc.collect()
            time.sleep(SETTLING)  # the last program's threads must not count for the next program
            samples[name].append(run(steps[name]))
    return samples


def calibrate(run: Run, seconds: float) -> int:
    """Return the number of steps that take about `seconds`; at least 1."""
    run(1)  # the first time may compile
    steps = 1
    while (wanted := max(1, math.ceil(seconds / max(run(steps), 1e-9)))) > 2 * steps:
        steps = min(wanted, 16 * steps)
    return wanted


def paired_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Return the median over rounds of above / below: disturbances of a round cancel."""
    return median(a / b for a, b in zip(above, below, strict=False))


def training_state(model: Any) -> Any:
    """Return a copy of the state of Keras's JAX trainer, since a compiled step consumes it."""
    model.optimizer.build(model.trainable_variables)
    trained, others = model.trainable_variables, model.non_trainable_variables
    groups = (trained, others, model.optimizer.variables, model.metrics_variables)
    return tuple([jax.numpy.array(variable.value) for variable in group] for group in groups)


def jax_step(model: Any, training: Any, data: str, clock: Clock, opened: contextlib.ExitStack) -> Program:
    """Return a model's training as `fit` takes it, on batches that its program makes, or the processor
    ("host").

    The number of steps that it took is checked when `opened` closes.
    """
    compile.compile_model(model, model.population, training)
    source: Any = batches.DeviceBatches(device.DeviceStream(model.population, BATCH_SIZE))
    count = arithmetic.steps_that_fit(source.bytes_per_step, arithmetic.STEPS_PER_PROGRAM)
    on_host = jax.jit(lambda first: source.stream.make(first, count))

    def given(first: Any) -> Any:
        if data != "host":
            return (first,)
        with jax.default_device(jax.devices("cpu")[0]):
            features, target = on_host(first)
        return jax.device_put((features, {"target": target}), jax.devices()[0])

    stack = source.stack if data != "host" else lambda made, _: made
    state, done = training_state(model), 0
    example, began = given(np.int32(0)), clock()
    program = scan.scanning_program(model, stack, count).lower(state, example).compile()
    compile_s, held = clock() - began, program.memory_analysis()

    def call(times: int) -> None:
        nonlocal state, done
        for _ in range(times):
            _, state = program(state, given(np.int32(done)))
            done += count
        jax.block_until_ready(state)

    def check() -> None:
        if (counted := int(state[2][0])) != done:
            raise ValueError(f"{done} steps were timed, but the optimizer counted {counted}.")

    opened.callback(check)
    size = held and held.argument_size_in_bytes + held.output_size_in_bytes + held.temp_size_in_bytes
    return call, count, compile_s, held and size - held.alias_size_in_bytes


def tensorflow_step(
    model: Any, training: Any, data: str, clock: Clock, opened: contextlib.ExitStack, folder: Path
) -> Program:
    """Return a model's training: with data in memory the step alone, else as `fit` calls it."""
    compile.compile_model(model, model.population, training)
    model.optimizer.build(model.trainable_variables)
    if data == MEMORY:
        call, count = steps_from_memory(model)
    else:
        opened.enter_context(programs.programs_of(model))
        count = model.steps_per_execution = arithmetic.STEPS_PER_PROGRAM
        source = fit.training_batches(model, model.population, BATCH_SIZE, data=data)
        call = calls_of(model, iter(execution.use_large_programs(model, source)))
    shutil.rmtree(folder)
    folder.mkdir()
    first, again = (timed(clock, partial(call, 1)) for _ in range(2))
    texts = [path.read_text() for path in folder.glob("*memory-usage-report.txt")]
    found = [int(size) for text in texts for size in re.findall(r"Total bytes used: (\d+)", text)]
    return call, count, first - again, max(found, default=None)


def calls_of(model: Any, iterator: Any) -> Call:
    """Return a function that calls `fit`'s training program n times."""
    program = model.train_function

    def call(times: int) -> None:
        for _ in range(times):
            program(iterator)
        model.optimizer.iterations.numpy()  # which waits for the steps that count it

    return call


def steps_from_memory(model: Any) -> tuple[Call, int]:
    """Return the call of a program of training steps on batches in memory, and its number of steps."""
    source = batches.HostBatches(streaming.stream(model.population, BATCH_SIZE, "train"))
    if not execution.can_use_large_programs(model):
        model.steps_per_execution = 1
        model.make_train_function(force=True)
        return calls_of(model, iter(source.dataset.take(1).cache().repeat())), 1
    count = arithmetic.steps_that_fit(source.bytes_per_step, arithmetic.STEPS_PER_PROGRAM)
    kept, program = source.read(iter(source.dataset), count), execution.training_program(model, source, count)

    @tf.function(autograph=False)
    def loop(times: Any) -> Any:
        def once(n: Any) -> Any:
            program(kept)
            return n + 1

        return tf.while_loop(lambda n: n < times, once, [0], parallel_iterations=1)[0]

    return lambda times: loop(tf.constant(times)).numpy(), count


def data_run(population: Population, clock: Clock) -> Run:
    """Return a run of the stream alone; each measurement has a new stream, which prefetched nothing yet."""
    data = streaming.stream(population, BATCH_SIZE, "train")

    @tf.function
    def draw(iterator, steps):
        for _ in tf.range(steps):
            next(iterator)

    run = run_of(clock, lambda steps: draw(iter(data), tf.constant(steps)))
    return lambda steps: run(4 * steps)  # so long that unused batches do not matter


def peaks(backend: str, precision: str, size: int) -> dict[str, Call]:
    """Return functions that multiply square matrices n times, one for each library."""
    values = np.random.default_rng(0).standard_normal([size, size], np.float32) / size**0.5
    kind = "bfloat16" if precision == MIXED else "float32"
    if backend == "jax":
        square = jax.numpy.asarray(values, kind)
        repeat = jax.jit(lambda times, left: jax.lax.fori_loop(0, times, lambda _, right: left @ right, left))
        return {"peak": lambda times: repeat(times, square).block_until_ready()}
    left = tf.constant(values, kind)

    def multiply(times: Any) -> Any:
        end, once = lambda n, _: n < times, lambda n, right: (n + 1, left @ right)
        return tf.while_loop(end, once, [tf.constant(0), left])[1][0, 0]  # whose value is read back

    def call_of(jit_compile: bool) -> Call:
        loop = tf.function(multiply, jit_compile=jit_compile, autograph=False)
        return lambda times: loop(tf.constant(times)).numpy()

    return {"peak": call_of(False), "compiled peak": call_of(True)}


def baseline_of(model: Any, place: str) -> tuple[Any, Any] | None:
    """Return the compiled Keras model and the data that FILE:NAME makes for a model, or None."""
    file, _, name = place.rpartition(":")
    return run_path(file)[name](model, BATCH_SIZE)


def fit_run(model: Any, data: Any, clock: Clock) -> Run:
    """Return a run of a compiled model's `fit`, timed from the end of its first execution to its last."""
    at_once = model.steps_per_execution

    def run(steps: int) -> float:
        ends: list[tuple[float, int]] = []
        note = keras.callbacks.LambdaCallback(on_train_batch_end=lambda n, logs: ends.append((clock(), n)))
        total = at_once * (max(1, round(steps / at_once)) + 1)
        model.fit(data, steps_per_epoch=total, callbacks=[note], verbose=0, shuffle=False)
        (began, first), (ended, last) = ends[0], ends[-1]
        return (ended - began) / (last - first)

    return run


def own_fit_run(model: Any, clock: Clock, cached: bool) -> Run:
    """Return a run of `fit` as in `modtf.train`, on the stream, or on one batch that stays in memory."""
    data = batches.HostBatches(streaming.stream(model.population, BATCH_SIZE, "train")).dataset
    if cached:
        data = data.take(1).cache().repeat()
    if model.train_function is None:
        execution.use_large_programs(model, batches.HostBatches(data))
    return fit_run(model, data, clock)
