"""Measures what a few training steps cost here, and remembers it.

On a CPU in CPU time, which other users do not raise. An accelerator works while Python goes on, so there it
is wall time, from one result that was read back to the next; and all members of the cell are measured,
because they are trained side by side.
"""

import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

from modtf.cell import Cell
from modtf.files import cache_folder, write_text
from modtf.task import science_hash
from modtf.training.arithmetic import ACCELERATION, step_flops
from modtf.training.processor import processor_name
from modtf.version import __version__

MEMBERS = 2  # that are measured: on a CPU: there members take turns, and cost grows with their number
FLOPS = 5e10  # of the steps between two looks at the clock, about; more on an accelerator
STEPS = {True: 100, False: 20}  # between two looks, at most; on an accelerator, or not
ENOUGH = 0.5  # seconds of steps


@dataclass(frozen=True)
class Speed:
    """What one shape costs: core-seconds on a CPU, seconds on a GPU."""

    step: float  # of one member
    start: float  # building and compiling, once per cell
    parameters: int  # of one member


def speed_of(cell: Cell) -> Speed:
    """The speed of the cell's shape, measured now unless it was before.

    Example:
        >>> speed_of(cell).step  # doctest: +SKIP
        0.0021
    """
    path = cache_folder("speed", f"{_key(cell)}.json")
    try:
        return Speed(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, TypeError, ValueError):
        found = _measure(cell)
    with contextlib.suppress(OSError):  # a home that cannot be written costs time alone
        write_text(path, json.dumps(asdict(found)))
    return found


def is_known(cell: Cell) -> bool:
    """Whether `speed_of` need not measure."""
    return cache_folder("speed", f"{_key(cell)}.json").exists()


def on_accelerator() -> bool:
    """Whether cells train on an accelerator here."""
    from modtf.models.kernels.by_device import on_cpu

    return not on_cpu()


def device_name() -> str:
    """What hours are hours of: the accelerator by its name, or a core of the processor."""
    from modtf.training.provenance import accelerators

    return accelerators()[0] if on_accelerator() else f"one core of {processor_name()}"


def parameters_of(cell: Cell) -> int:
    """Trainable parameters of one member."""
    from modtf.models.build import build_cell, parameters_of_member
    from modtf.population import Population

    return parameters_of_member(build_cell(cell, Population.of(cell.task)))


def _key(cell: Cell) -> str:
    """What may change the speed: shape, software, processor."""
    import tensorflow as tf

    from modtf.training.provenance import accelerators

    shape = {**cell.to_dict()["cell"], "members": len(cell.members)}
    devices = [processor_name(), *accelerators(), *[d.name for d in tf.config.list_physical_devices()]]
    training = [cell.protocol.training.batch_size, cell.protocol.training.precision]
    return science_hash([shape, training, __version__, tf.__version__, devices])


def _measure(cell: Cell) -> Speed:
    import keras

    from modtf.evaluation.programs import programs_of
    from modtf.models.build import build_cell, parameters_of_member, trains_alone
    from modtf.training.compile import compile_model
    from modtf.training.execution import use_large_programs
    from modtf.training.fit import training_batches

    accelerated = on_accelerator()
    clock = time.perf_counter if accelerated else time.process_time
    training = cell.protocol.training
    members = len(cell.members) if accelerated else min(MEMBERS, len(cell.members))
    population = replace(cell, members=cell.members[:members]).population
    if trains_alone(cell):
        population, members = population.alone(0), 1
    times = [clock()]

    class Clock(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.optimizer.iterations.numpy()  # which waits for the steps that count it
            times.append(clock())
            if times[-1] - times[1] > ENOUGH:
                self.model.stop_training = True

    model = build_cell(cell, population)
    parameters = parameters_of_member(model)
    tokens = cell.step_tokens
    flops = FLOPS * (ACCELERATION if accelerated else 1)
    steps = max(1, min(STEPS[accelerated], int(flops / step_flops(parameters, members * tokens))))
    compile_model(model, population, training, steps_per_execution=steps)
    data = use_large_programs(model, training_batches(model, population, training.batch_size))
    with programs_of(model):
        model.fit(data, epochs=1000, steps_per_epoch=steps, callbacks=[Clock()], verbose=0, shuffle=False)
    step = min(_differences(times[1:])) / steps / members
    return Speed(step, max(0.0, times[1] - times[0] - steps * members * step), parameters)


def _differences(times: Sequence[float]) -> list[float]:
    return [b - a for a, b in pairwise(times)]
