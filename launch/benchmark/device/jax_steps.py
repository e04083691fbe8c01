"""Training programs on JAX, where nothing needs TensorFlow.

A program takes the training step of Keras several times, by `jax.lax.scan`. Its batches are made inside it
(data "device"), or by the same functions on the host's processor, and handed over while the device computes
(data "host").
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import jax
import keras
import numpy as np

from modtf.datasets.device import DeviceStream
from modtf.launch.benchmark.device.program import StepProgram
from modtf.launch.benchmark.jax_programs import state_of, training_steps
from modtf.launch.benchmark.measure import BATCH_SIZE
from modtf.models.base import ModularModel
from modtf.models.kernels.by_device import ACCELERATOR, kernels
from modtf.protocol import MIXED, Training
from modtf.training.arithmetic import STEPS_PER_PROGRAM, steps_that_fit
from modtf.training.compile import compile_model
from modtf.training.processor import processor_name

OPTIMIZER = 2  # of the state's groups


def prepare_process(folder: str) -> None:
    """Nothing is left to prepare: the compiler says itself what a program holds in memory."""


def software() -> str:
    return f"jax {jax.__version__}, keras {keras.__version__}"


def find_device(kind: str) -> str:
    """The name of the device that programs run on.

    Raises:
        ValueError: where there is none of this kind.
    """
    try:
        (device, *_) = jax.devices(kind)
    except RuntimeError:
        raise ValueError(
            f"--device={kind}: JAX {jax.__version__} finds none here. Install its plug-in for the card, "
            "such as pip install 'jax[cuda13]', and look at nvidia-smi; --device=cpu runs the same programs "
            "here."
        ) from None
    return processor_name() if kind == "cpu" else device.device_kind


@contextlib.contextmanager
def step_program(model: ModularModel, training: Training, data: str) -> Iterator[StepProgram]:
    """A compiled model's training.

    Args:
        data: "device" or "host".
    """
    compile_model(model, model.population, training)
    stream = DeviceStream(model.population, BATCH_SIZE)
    count = steps_that_fit(stream.bytes_per_step, STEPS_PER_PROGRAM)
    take_steps = training_steps(model)

    def batches(first: Any, at_once: bool = False) -> Any:
        features, target = stream.make(first, count, at_once=at_once)
        return features, {"target": target}

    def on_device(state: Any, first: Any) -> Any:
        return take_steps(state, batches(first, at_once=kernels() == ACCELERATOR))

    makers: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
        "device": (lambda first: first, on_device),
        "host": (_on_host(batches), take_steps),
    }
    given, steps = makers[data]
    state, done = state_of(model), 0
    began = time.perf_counter()
    program = jax.jit(steps, donate_argnums=0).lower(state, given(np.int32(0))).compile()
    compile_s = time.perf_counter() - began

    def run(programs: int) -> None:
        nonlocal state, done
        for _ in range(programs):
            state = program(state, given(np.int32(done)))
            done += count
        jax.block_until_ready(state)

    yield StepProgram(run, count, compile_s, _bytes_of(program))
    if (counted := int(state[OPTIMIZER][0])) != done:
        raise ValueError(f"{done} steps were timed, and the optimizer counted {counted}.")


def peak_run(precision: str, size: int) -> Callable[[int], None]:
    """So many products of square matrices, in the precision that `step_program` chose."""
    left, multiply = _product("bfloat16" if precision == MIXED else "float32", size)
    return lambda times: multiply(times, left).block_until_ready()


def trace(folder: str) -> contextlib.AbstractContextManager:
    """Writes the profiler's trace of what runs within it."""
    return jax.profiler.trace(folder)


def _on_host(batches: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same batches, made on the host's processor and handed to the device."""
    compiled = jax.jit(batches)

    def made(first: Any) -> Any:
        with jax.default_device(jax.devices("cpu")[0]):
            given = compiled(first)
        return jax.device_put(given, jax.devices()[0])

    return made


def _bytes_of(program: Any) -> int | None:
    found = program.memory_analysis()
    if found is None:
        return None
    held = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
    return held - found.alias_size_in_bytes


@cache
def _product(dtype: str, size: int) -> tuple[Any, Any]:
    values = np.random.default_rng(0).standard_normal([size, size], np.float32) / size**0.5

    @jax.jit  # compiled anew where the precision of products is another
    def multiply(times: Any, left: Any) -> Any:
        return jax.lax.fori_loop(0, times, lambda _, right: left @ right, left)

    return jax.numpy.asarray(values, dtype), multiply
