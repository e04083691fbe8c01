"""Programs for the JAX backend, which run without TensorFlow.

A program repeats Keras's training step by `jax.lax.scan`. Its batches are in memory (data "memory"), or are
made inside the program ("device"), or are made by the same functions on the host's processor and copied while
the device computes ("host").
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import keras
import numpy as np

from modtf.datasets.device import DeviceStream
from modtf.launch.benchmark.timing import BATCH_SIZE, Clock, Run, StepProgram, run_of
from modtf.models.base import ModularModel
from modtf.models.kernels.by_device import ACCELERATOR, kernels
from modtf.tasks.population import Population
from modtf.tasks.protocol import MIXED, Training
from modtf.training.arithmetic import STEPS_PER_PROGRAM, steps_that_fit
from modtf.training.compile import compile_model
from modtf.training.machine import processor_name

OPTIMIZER = 2  # of the state's groups
SOFTWARE = f"jax {jax.__version__}, keras {keras.__version__}"

trace = jax.profiler.trace  #: writes the profiler's trace of what runs within it, to a folder


def find_device(kind: str) -> str:
    """Return the device that programs run on; raise `ValueError` if there is none of this kind."""
    try:
        (device, *_) = jax.devices(kind)
    except RuntimeError:
        raise ValueError(
            f"--device={kind}: JAX {jax.__version__} finds no such device. Install its plug-in for the "
            "device, for example by pip install 'jax[cuda13]', and check that nvidia-smi lists it. "
            "--device=cpu runs the same programs on the CPU."
        ) from None
    return processor_name() if kind == "cpu" else device.device_kind


def training_steps(model: ModularModel) -> Any:
    """Return a compiled function (state, batches [K, ...]) -> state that takes a compiled model's step K
    times."""

    def step(state: Any, batch: Any) -> tuple[Any, None]:
        _, state = model.train_step(state, batch)
        return state, None

    return jax.jit(lambda state, batches: jax.lax.scan(step, state, batches)[0], donate_argnums=0)


def training_state(model: ModularModel) -> Any:
    """Return a copy of the state of Keras's JAX trainer, since a compiled step consumes it."""
    model.optimizer.build(model.trainable_variables)
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    return tuple([jax.numpy.array(variable.value) for variable in group] for group in groups)


@contextlib.contextmanager
def step_program(model: ModularModel, training: Training, data: str, clock: Clock) -> Iterator[StepProgram]:
    """Return a model's training on data of "memory", "device" or "host"; the clock times compilation."""
    compile_model(model, model.population, training)
    stream = DeviceStream(model.population, BATCH_SIZE)
    count = steps_that_fit(stream.bytes_per_step, STEPS_PER_PROGRAM)
    take_steps = training_steps(model)

    def batches(first: Any, at_once: bool = False) -> Any:
        features, target = stream.make(first, count, at_once=at_once)
        return features, {"target": target}

    def make_and_take(state: Any, first: Any) -> Any:
        return take_steps(state, batches(first, at_once=kernels() == ACCELERATOR))

    compiled, steps, kept = jax.jit(batches), take_steps, None
    if data == "memory":
        kept = compiled(0)
    elif data == "device":
        steps = jax.jit(make_and_take, donate_argnums=0)

    def given(first: Any) -> Any:
        """Return the input of a program that takes its steps from `first` on."""
        if data != "host":
            return first if kept is None else kept
        with jax.default_device(jax.devices("cpu")[0]):
            made = compiled(first)
        return jax.device_put(made, jax.devices()[0])

    state, done = training_state(model), 0
    example, began = given(np.int32(0)), clock()
    program = steps.lower(state, example).compile()
    compile_s = clock() - began

    def call(times: int) -> None:
        nonlocal state, done
        for _ in range(times):
            state = program(state, given(np.int32(done)))
            done += count
        jax.block_until_ready(state)

    yield StepProgram(call, count, compile_s, _bytes_of(program))
    if (counted := int(state[OPTIMIZER][0])) != done:
        raise ValueError(f"{done} steps were timed, but the optimizer counted {counted}.")


def data_run(population: Population, clock: Clock) -> Run:
    """Return a run that makes the training data by a compiled program."""
    stream = DeviceStream(population, BATCH_SIZE)

    @jax.jit
    def loop(programs: Any) -> Any:
        def made(n: Any, total: Any) -> Any:
            features, target = stream.make(n * STEPS_PER_PROGRAM, STEPS_PER_PROGRAM)
            return total + sum(values.sum() for values in (*features.values(), target))

        return jax.lax.fori_loop(0, programs, made, 0.0)

    return run_of(clock, lambda programs: loop(programs).block_until_ready(), STEPS_PER_PROGRAM)


def peak_calls(precision: str, size: int) -> dict[str, Callable[[int], object]]:
    """Return a function that multiplies square matrices n times, in the precision of `step_program`."""
    values = np.random.default_rng(0).standard_normal([size, size], np.float32) / size**0.5
    square = jax.numpy.asarray(values, "bfloat16" if precision == MIXED else "float32")

    @jax.jit
    def multiply(times: Any, left: Any) -> Any:
        return jax.lax.fori_loop(0, times, lambda _, right: left @ right, left)

    return {"peak": lambda times: multiply(times, square).block_until_ready()}


def _bytes_of(program: Any) -> int | None:
    analysis = program.memory_analysis()
    if analysis is None:
        return None
    held = analysis.argument_size_in_bytes + analysis.output_size_in_bytes + analysis.temp_size_in_bytes
    return held - analysis.alias_size_in_bytes
