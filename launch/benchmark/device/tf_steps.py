"""Training programs on TensorFlow: what `fit` calls when `modtf.train` trains, data included."""

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from modtf.evaluation.programs import programs_of
from modtf.launch.benchmark.device.program import StepProgram, wall_seconds
from modtf.launch.benchmark.hlo import program_bytes
from modtf.launch.benchmark.measure import BATCH_SIZE
from modtf.launch.benchmark.worker import empty
from modtf.models.base import ModularModel
from modtf.protocol import MIXED, Training
from modtf.training.arithmetic import STEPS_PER_PROGRAM
from modtf.training.compile import compile_model
from modtf.training.execution import use_large_programs
from modtf.training.fit import training_batches
from modtf.training.processor import processor_name
from modtf.training.provenance import accelerators

_DUMPS: list[str] = []  # where XLA writes its memory reports


def prepare_process(folder: str) -> None:
    """Has XLA say in a folder what its programs hold in memory; to be called before any is compiled."""
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_dump_to={folder}".strip()
    _DUMPS.append(folder)


def software() -> str:
    return f"tensorflow {tf.__version__}, keras {keras.__version__}"


def find_device(kind: str) -> str:
    """The name of the device that programs run on.

    Raises:
        ValueError: where there is none of this kind.
    """
    if kind == "cpu":
        return processor_name()
    if not tf.config.list_physical_devices(kind.upper()):
        raise ValueError(
            f"--device={kind}: TensorFlow {tf.__version__} finds none here. Install it with CUDA "
            "(pip install 'modtf[cuda]') and look at nvidia-smi; --device=cpu runs the same programs here."
        )
    return accelerators()[0]


@contextlib.contextmanager
def step_program(model: ModularModel, training: Training, data: str) -> Iterator[StepProgram]:
    """A compiled model's training.

    Args:
        data: "device" or "host".
    """
    compile_model(model, model.population, training, steps_per_execution=STEPS_PER_PROGRAM)
    model.optimizer.build(model.trainable_variables)
    batches = training_batches(model, model.population, BATCH_SIZE, data=data)
    iterator = iter(use_large_programs(model, batches))
    for folder in _DUMPS:
        empty(Path(folder))

    def run(programs: int) -> None:
        for _ in range(programs):
            model.train_function(iterator)
        model.optimizer.iterations.numpy()  # which waits for the steps that count it

    with programs_of(model):
        first, again = (wall_seconds(partial(run, 1)) for _ in range(2))
        held = max(filter(None, map(program_bytes, _DUMPS)), default=None)
        yield StepProgram(run, STEPS_PER_PROGRAM, first - again, held)
    model.train_function = None
    keras.backend.clear_session()


def peak_run(precision: str, size: int) -> Callable[[int], None]:
    """So many products of square matrices, in the precision that `step_program` chose."""
    left, multiply = _product("bfloat16" if precision == MIXED else "float32", precision, size)
    return lambda times: multiply(tf.constant(times), left).numpy()


def trace(folder: str) -> contextlib.AbstractContextManager:
    """Writes the profiler's trace of what runs within it."""
    return tf.profiler.experimental.Profile(folder)


@cache
def _product(dtype: str, precision: str, size: int) -> tuple[Any, Any]:
    values = np.random.default_rng(0).standard_normal([size, size]) / size**0.5

    @tf.function(jit_compile=True, autograph=False)
    def multiply(times, left):
        def once(n, right):
            return n + 1, left @ right

        _, product = tf.while_loop(lambda n, _: n < times, once, [tf.constant(0), left])
        return product[0, 0]  # whose value is read back

    return tf.constant(values, dtype), multiply
