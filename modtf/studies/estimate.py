"""What a study will cost, from a few measured shapes.

Shapes of one kind (family, its options, architecture or registered model) differ in rules, width and
variant. A step of one member takes a time in proportion to its parameters plus `SMALL`, which stands for
what does not grow with the model; the factor is the kind's, measured at one or two of its shapes. On an
accelerator what does not grow is most of a small model's time, so there two shapes give both. Settings and
variants of one size are taken for equally dear, and a member of few for as dear as one of many. Evaluation
costs a third of a step per token, because it has no backward pass.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modtf.cell import Cell
from modtf.models.own import MODELS
from modtf.protocol import TRAINING_FACTOR, Evaluation, tail_length
from modtf.studies.speed import Speed, is_known, on_accelerator, parameters_of, speed_of
from modtf.training.arithmetic import ACCELERATION, BACKWARD, step_flops
from modtf.training.requirements import cell_bytes

SMALL = 50_000  # parameters whose arithmetic takes as long as everything around a small model's
LARGEST = 3e10  # floating-point operations of the largest step that a core measures, of one member
STARTS = 2  # evaluation takes as long to compile as training
EXACT = 6  # shapes of a kind up to which all are built to count their parameters

BASE_GB = 1.0  # TensorFlow and its programs
COPIES = 8  # of every parameter: value, gradient, two moments, best, and a checkpoint being written

Kind = tuple[Any, ...]


@dataclass(frozen=True)
class Cost:
    """Seconds per token of one member, by its parameters."""

    fixed: float
    per_parameter: float

    def of(self, parameters: int) -> float:
        return self.fixed + self.per_parameter * parameters


@dataclass(frozen=True)
class Estimate:
    """What one cell will cost."""

    hours: float  # of a core, or of the accelerator
    gigabytes: float  # of main memory, or of the GPU's
    parameters: int  # of one member, of the first variant of its size: the others share its budget


def estimate(
    cells: Sequence[Cell], seconds: float = 25.0, say: Callable[[str], None] = lambda line: None
) -> list[Estimate]:
    """The cost of every cell.

    Args:
        cells: what is to be run.
        seconds: how long to go on measuring shapes that were not measured before.
        say: is told what is measured.
    """
    kinds: dict[Kind, list[Cell]] = {}
    for cell in cells:
        kinds.setdefault(_kind(cell), []).append(cell)
    parameters = {kind: _count_parameters(members) for kind, members in kinds.items()}
    measured: dict[Kind, list[Speed]] = {kind: [] for kind in kinds}
    end, accelerated = time.monotonic() + seconds, on_accelerator()
    for place in (0, 1):  # the large shape of every kind, then a small one
        for kind, members in kinds.items():
            chosen = _to_measure(members, parameters[kind], LARGEST * (ACCELERATION if accelerated else 1))
            nothing = not any(measured.values())
            if len(chosen) > place and (nothing or is_known(chosen[place]) or time.monotonic() < end):
                say(f"measuring {chosen[place].label}")
                measured[kind].append(speed_of(chosen[place]))
    costs = {
        kind: _cost(speeds, kinds[kind][0].step_tokens, accelerated)
        for kind, speeds in measured.items()
        if speeds
    }
    usual = Cost(*np.mean([(cost.fixed, cost.per_parameter) for cost in costs.values()], axis=0).tolist())
    start = float(np.mean([speed.start for speeds in measured.values() for speed in speeds]))
    found = []
    for cell in cells:
        kind = _kind(cell)
        count = parameters[kind][_shape(cell)]
        token = costs.get(kind, usual).of(count)  # seconds of training per token and member
        training = cell.protocol.training
        work = training.steps * cell.step_tokens + evaluation_tokens(cell) / BACKWARD
        own = [speed.start for speed in measured[kind]]
        starts = STARTS * (len(cell.members) if cell.runs in MODELS else 1)
        core = starts * (float(np.mean(own)) if own else start) + len(cell.members) * work * token
        memory = BASE_GB + 1e-9 * sum(cell_bytes(cell, count, COPIES).values())
        found.append(Estimate(core / 3600, memory, count))
    return found


def evaluation_tokens(cell: Cell) -> int:
    """Tokens that one member is evaluated on, from the first evaluation to the last."""
    sizes, evaluations = cell.protocol.evaluation, cell.protocol.training.evaluations
    small, all_conditions = sizes.smaller(TRAINING_FACTOR), sizes.smaller(TRAINING_FACTOR, sizes.conditions)
    tail = tail_length(evaluations) * _tokens_read(cell, all_conditions)
    return evaluations * _tokens_read(cell, small) + tail + 2 * _tokens_read(cell, sizes)


def _tokens_read(cell: Cell, sizes: Evaluation) -> int:
    family = cell.task.family
    lengths = [family.condition(name).seq_len or family.num_training_tokens for name in sizes.names(family)]
    adaptation = sizes.draws * sizes.tokens_per_draw if family.is_sequence else 0  # else it follows
    return sizes.batches * sizes.batch_size * sum(lengths) + sizes.tokens + adaptation


def _kind(cell: Cell) -> Kind:
    own = cell.runs if cell.runs in MODELS else None
    return cell.task.arch, cell.columns["task_options"], cell.architecture, tuple(cell.model.items()), own


def _shape(cell: Cell) -> tuple[int, int]:
    return cell.task.num_rules, cell.width


def _cost(speeds: Sequence[Speed], tokens: int, accelerated: bool) -> Cost:
    """Of a kind: of the large shape above all, because that is where the time goes."""
    large, small = speeds[0], speeds[-1]
    if accelerated and large.parameters > small.parameters:
        slope = max(0.0, (large.step - small.step) / (large.parameters - small.parameters))
        fixed = max(0.0, large.step - slope * large.parameters)
        return Cost(fixed / tokens, (large.step - fixed) / large.parameters / tokens)
    factor = sum(speed.step for speed in speeds) / tokens / sum(speed.parameters + SMALL for speed in speeds)
    return Cost(factor * SMALL, factor)


def _to_measure(cells: Sequence[Cell], parameters: dict[tuple[int, int], int], largest: float) -> list[Cell]:
    """The largest shape that is quickly measured, and the smallest, if it is another.

    Args:
        largest: floating-point operations of a step that is.
    """
    shapes = sorted(parameters, key=parameters.__getitem__)
    tokens = cells[0].step_tokens
    quick = [shape for shape in shapes if step_flops(parameters[shape], tokens) <= largest] or shapes[:1]
    variants = {shape: [cell for cell in cells if _shape(cell) == shape] for shape in (quick[-1], shapes[0])}
    return [of_shape[len(of_shape) // 2] for of_shape in variants.values()]


def _count_parameters(cells: Sequence[Cell]) -> dict[tuple[int, int], int]:
    """Parameters by shape: counted where shapes are few, else from some of them.

    a + bR + ce + dRe + fe^2 is exact for a monolithic model, and variants share its budget.
    """
    by_shape = {_shape(cell): cell for cell in reversed(cells)}
    if len(by_shape) <= EXACT:
        return {shape: parameters_of(cell) for shape, cell in by_shape.items()}
    rules, widths = sorted({r for r, _ in by_shape}), sorted({e for _, e in by_shape})
    wanted = [(r, e) for e in widths[:3] for r in (rules[0], rules[len(rules) // 2]) if (r, e) in by_shape]
    shapes = list(dict.fromkeys([*wanted, *sorted(by_shape, key=lambda s: s[1])]))[: EXACT + 1]
    counts = [parameters_of(by_shape[shape]) for shape in shapes]
    solution, *_ = np.linalg.lstsq(
        np.array([_basis(*s) for s in shapes]), np.array(counts, float), rcond=None
    )
    return {shape: max(1, round(float(np.array(_basis(*shape)) @ solution))) for shape in by_shape}


def _basis(rules: int, width: int) -> list[float]:
    return [1.0, rules, width, rules * width, width**2]
