"""The cost of a study, from sizes in closed form and the speed of each architecture on one core.

On request, a few steps of one cell per architecture are measured instead.

The time of a step is proportional to its operations, parameters x tokens. `SMALL` more parameters represent
work that does not grow with the model. Settings, variants and options are assumed to cost the same, and so is
a member of few or many. Evaluation costs a third of a step per token, because it has no backward pass.

Parts of plug-ins have no closed form. Their models are built at the two smallest widths, and parameters are
taken to grow with the square of the width.

On a CPU the measured time is CPU time, which other users do not increase. An accelerator works while Python
goes on, so there it is wall time. All members of the cell are then measured, because they train in parallel.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from modtf.models.architectures.sizes import SIZES, Size, num_parameters
from modtf.models.own import MODELS
from modtf.tasks.cell import Cell
from modtf.tasks.memory import cell_bytes
from modtf.tasks.population import Population
from modtf.tasks.protocol import TRAINING_FACTOR, Evaluation
from modtf.training.arithmetic import ACCELERATION, BACKWARD, epochs_of, step_flops

SMALL = 50_000  # parameters that cost a core as much as everything else in a small model
LARGEST = 1e10  # floating-point operations of the largest step measured on a core, for one member
MEMBERS = 2  # members measured on a CPU, where they take turns and the cost grows with their number
FLOPS = 5e10  # approximate operations between two readings of the clock
STEPS = 20  # at most, between two readings
ENOUGH = 0.5  # seconds of steps

BASE_GB = 1.0  # TensorFlow and its programs
COPIES = 8  # of every parameter: value, gradient, two moments, best, and one in a checkpoint

OTHER = Size(lambda *_: 0, 6e-11, 10.0)  # the speed of networks of plug-ins


@dataclass(frozen=True)
class Speed:
    """The cost of training: core-seconds on a CPU, seconds on an accelerator."""

    factor: float  # per token, member and parameter (with `SMALL` more)
    start: float  # for building and compiling, once


@dataclass(frozen=True)
class CostEstimate:
    """The cost of one cell, in hours of a core or of the accelerator."""

    hours: float
    training: float  # seconds without evaluations
    gigabytes: float  # of main memory, or of the accelerator's
    parameters: int  # of one member


def estimate(
    cells: Sequence[Cell], measured: bool = False, say: Callable[[str], None] = lambda line: None
) -> list[CostEstimate]:
    """Return the cost of every cell: of a core, or `measured` on this machine, which takes one cell per
    architecture. `say` is called before each.

    Without measuring, TensorFlow is needed for parts of plug-ins only.
    """
    kinds: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        kinds.setdefault((cell.task.arch, cell.runs if cell.runs in MODELS else cell.network), []).append(
            cell
        )
    costs: dict[str, CostEstimate] = {}
    for (_, network), members in kinds.items():
        parameters, size = _parameters(members), SIZES.get(network, OTHER)
        speed, small, in_turn = Speed(size.factor, size.start), SMALL, size.in_turn
        if measured:
            chosen = _to_measure(members, parameters)
            say(f"measuring {chosen.label}")
            speed, small = measure(chosen, parameters[chosen.folder]), _small()
        for cell in members:
            turns = len(cell.members) if in_turn else 1
            costs[cell.folder] = _cost(cell, parameters[cell.folder], speed, small, turns)
    return [costs[cell.folder] for cell in cells]


def _cost(cell: Cell, parameters: int, speed: Speed, small: int, turns: int) -> CostEstimate:
    members, per_token = len(cell.members), speed.factor * (parameters + small)
    start = speed.start * turns
    training = start + members * per_token * cell.protocol.training.steps * cell.step_tokens
    evaluation = start + members * per_token * evaluation_tokens(cell) / BACKWARD  # compiled, too
    memory = BASE_GB + 1e-9 * sum(cell_bytes(cell, parameters, COPIES).values())
    return CostEstimate((training + evaluation) / 3600, training / 3600, memory, parameters)


def evaluation_tokens(cell: Cell) -> int:
    """Return the number of tokens in one member's evaluations, from the first to the last."""
    sizes, evaluations = cell.protocol.evaluation, cell.protocol.training.evaluations
    _, _, tail_evaluations = epochs_of(cell.protocol.training)
    small, all_conditions = sizes.smaller(TRAINING_FACTOR), sizes.smaller(TRAINING_FACTOR, sizes.conditions)
    tail = tail_evaluations * _tokens_read(cell, all_conditions)
    return evaluations * _tokens_read(cell, small) + tail + 2 * _tokens_read(cell, sizes)


def measure(cell: Cell, parameters: int) -> Speed:
    """Measure a few training steps of a cell.

    `parameters` is the number that `_cost` assumes for this cell. Variants may have other numbers; the
    measured time is divided by this one, by which `_cost` multiplies it again.
    """
    import keras

    from modtf.evaluation.programs import programs_of
    from modtf.models.build import build_cell
    from modtf.training.compile import compile_model
    from modtf.training.execution import use_large_programs
    from modtf.training.fit import training_batches

    accelerated, training = on_accelerator(), cell.protocol.training
    clock = time.perf_counter if accelerated else time.process_time
    population = _built_for(cell, len(cell.members) if accelerated else MEMBERS)
    members, times = len(population), [clock()]

    class Clock(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.optimizer.iterations.numpy()  # waits for the steps, which it counts
            times.append(clock())
            if times[-1] - times[1] > ENOUGH:
                self.model.stop_training = True

    model = build_cell(cell, population)
    flops = FLOPS * (ACCELERATION if accelerated else 1)
    most = int(flops / step_flops(parameters, members * cell.step_tokens))
    steps = max(1, min(STEPS * (5 if accelerated else 1), most))
    compile_model(model, population, training, steps_per_execution=steps)
    data = use_large_programs(model, training_batches(model, population, training.batch_size))
    with programs_of(model):
        model.fit(data, epochs=1000, steps_per_epoch=steps, callbacks=[Clock()], verbose=0, shuffle=False)
    step = min(b - a for a, b in pairwise(times[1:])) / steps / members
    start = max(0.0, times[1] - times[0] - steps * members * step)
    return Speed(step / cell.step_tokens / (parameters + _small()), start)


def on_accelerator() -> bool:
    """Return whether cells train on an accelerator on this machine."""
    from modtf.models.kernels.by_device import on_cpu

    return not on_cpu()


def _small() -> int:
    return SMALL * (ACCELERATION if on_accelerator() else 1)


def parameters_of(cell: Cell) -> int:
    """Return the number of trainable parameters of one member."""
    from modtf.models.build import build_cell, parameters_of_member

    return parameters_of_member(build_cell(cell, _built_for(cell, 1)))


def _built_for(cell: Cell, most: int) -> Population:
    """Return the first members, which one model of the cell is built for; one if members train alone."""
    from modtf.models.build import trains_alone

    population = replace(cell, members=cell.members[:most]).population
    return population.single_member(0) if trains_alone(cell) else population


def _parameters(cells: Sequence[Cell]) -> dict[str, int]:
    """Return the parameters of cells of one architecture by folder: exactly, or those of plug-ins as
    a + b e^2, fitted to the two smallest widths."""
    known = {cell.folder: num_parameters(cell) for cell in cells}
    by_width = {c.width: c for c in sorted(cells, key=lambda c: -c.task.num_rules) if known[c.folder] is None}
    counted = {width: parameters_of(by_width[width]) for width in sorted(by_width)[:2]}
    if counted:
        (low, least), (high, more) = min(counted.items()), max(counted.items())
        slope = (more - least) / (high**2 - low**2) if high > low else 0.0
        fitted = {cell.folder: max(1, round(least + slope * (cell.width**2 - low**2))) for cell in cells}
    return {name: fitted[name] if number is None else number for name, number in known.items()}


def _to_measure(cells: Sequence[Cell], parameters: Mapping[str, int]) -> Cell:
    """Return the middle one of the largest cells that can be measured quickly."""
    largest = LARGEST * (ACCELERATION if on_accelerator() else 1)
    quick = [cell for cell in cells if step_flops(parameters[cell.folder], cell.step_tokens) <= largest]
    width = max(cell.width for cell in quick) if quick else min(cell.width for cell in cells)
    chosen = [cell for cell in cells if cell.width == width]
    return chosen[len(chosen) // 2]


def _tokens_read(cell: Cell, sizes: Evaluation) -> int:
    family = cell.task.family
    usual = family.num_tokens(cell.task)
    lengths = [family.condition(name).seq_len or usual for name in sizes.names(cell.task)]
    adaptation = sizes.draws * sizes.tokens_per_draw if family.is_sequence else 0  # else from A
    return sizes.batches * sizes.batch_size * sum(lengths) + sizes.tokens_of(cell.task) + adaptation
