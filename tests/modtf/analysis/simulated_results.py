"""Writes result folders as training would, with effects that are known."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from modtf import Cell, Evaluation, Protocol, Study, Training
from modtf.metrics import measure_population
from modtf.results import with_categories
from modtf.results.schema import (
    CONFIG,
    VARIANTS,
    write_activations,
    write_history,
    write_manifest,
    write_results,
)
from modtf.tasks.families import IID
from modtf.tasks.task import Task, science_hash

Curve = Callable[[float], float]  # of x = log2(R) - 1, which is 0 at R = 2
SHARE_OF = {"tail": 1.0, "last": 1.01, "best": 0.98}  # of the loss at many steps, by checkpoint
CHECKPOINTS = tuple(SHARE_OF)
TRAINING = Training(steps=4000, learning_rate=1e-4)


@dataclass(frozen=True)
class World:
    """The truth of the simulated study; a variant that is not named equals modular."""

    floor: dict[str, Curve] = field(  # loss at many steps
        default_factory=lambda: {
            "monolithic": lambda x: 0.20 + 0.10 * x,
            "modular": lambda x: 0.19 + 0.09 * x,
            "modular_op": lambda x: 0.19 + 0.05 * x,
            "gt_modular": lambda x: 0.19 + 0.005 * x,
        }
    )
    collapse: dict[str, Curve] = field(  # share of the rules that go to a wrong module
        default_factory=lambda: {
            "modular": lambda x: 0.15 + 0.18 * x,
            "modular_op": lambda x: 0.05 + 0.10 * x,
            "gt_modular": lambda x: 0.0,
        }
    )
    blur: float = 0.1  # of the activation of collapsing variants, 0..1
    speed: dict[str, float] = field(default_factory=dict)  # of learning; 6 for variants that are not named
    noise: float = 0.05  # standard deviation of log loss between seeds; three times this between tasks
    diverged: tuple[tuple[str, int, int], ...] = ()  # (variant, data_seed, seed) whose losses are NaN


def cells_of(
    kinds: Iterable[tuple[str, Mapping[str, Any]]] = (("mlp", {}),),
    settings: Iterable[str] = ("regression", "classification"),
    rules: Iterable[int] = (2, 8, 32),
    widths: Iterable[int] = (32,),
    variants: Iterable[str | tuple[str, Mapping[str, Any]]] = VARIANTS,
    data_seeds: Sequence[int] = (0, 1, 2),
    seeds: Sequence[int] = (0, 1),
    training: Training = TRAINING,
) -> Iterator[Cell]:
    """Yield every cell of a grid; kinds: (family, options); variants: names, or with options."""
    members, protocol = tuple(product(data_seeds, seeds)), Protocol(training, Evaluation())
    for (arch, options), setting, num_rules, width, variant in product(
        kinds, settings, rules, widths, variants
    ):
        name, router = (variant, {}) if isinstance(variant, str) else variant
        yield Cell(Task(arch, setting, num_rules, **options), width, name, members, protocol, router)


def simulate(
    out: Path,
    world: World | None = None,
    num_evaluations: int = 8,
    checkpoints: Sequence[str] = CHECKPOINTS,
    version: str = "0.1.0",
    **grid: Any,
) -> Path:
    """Write one folder for every cell of `cells_of(**grid)`; return `out`."""
    for cell in cells_of(**grid):
        write_cell(out, cell, world, num_evaluations, version=version, checkpoints=checkpoints)
    return out


def study_of(out: Path, **grid: Any) -> Study:
    """The study of a small simulated grid: regression, histories of one evaluation, unless said otherwise."""
    sizes: dict[str, Any] = {"settings": ["regression"], "num_evaluations": 1} | grid
    return Study.read(simulate(out, **sizes))


def results_of(
    world: World | None = None, checkpoints: Sequence[str] = CHECKPOINTS, **grid: Any
) -> pd.DataFrame:
    """Return the table that `load_results` would read from the simulated grid, without files."""
    tables = []
    for cell in cells_of(**{"settings": ["regression"], **grid}):
        simulated = Simulated(cell, world or World(), num_evaluations=1)
        tables.append(simulated.results(checkpoints).assign(protocol="p", folder=cell.folder))
    return with_categories(pd.concat(tables, ignore_index=True))


def write_cell(
    out: Path,
    cell: Cell,
    world: World | None = None,
    num_evaluations: int = 8,
    finished: bool = True,
    version: str = "0.1.0",
    checkpoints: Sequence[str] = CHECKPOINTS,
) -> Path:
    """One cell, with every file that a report reads; its folder."""
    folder = Path(out, cell.folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(json.dumps({**cell.to_dict(), "version": version}))
    if finished:
        simulated = Simulated(cell, world or World(), num_evaluations)
        write_history(folder, simulated.history())
        write_activations(folder, **simulated.activations())
        write_results(folder, simulated.results(checkpoints))
        write_manifest(folder, version=version)
    return folder


class Simulated:
    """The tables and matrices of one cell."""

    def __init__(self, cell: Cell, world: World, num_evaluations: int):
        self.cell, self.world = cell, world
        self.steps = np.linspace(0, cell.protocol.training.steps, num_evaluations + 1).astype(int)
        self.progress = self.steps / self.steps[-1]
        self.matrices = np.stack([_activation(cell, world, share) for share in self.progress])  # [E, P, R, M]

    def history(self) -> pd.DataFrame:
        rows = []
        for step, share, matrices in zip(self.steps, self.progress, self.matrices, strict=True):
            values = _performance(self.cell, self.world, share, IID) | _measures(self.cell, matrices)
            rows.append(self._rows({(name, IID): value for name, value in values.items()}).assign(step=step))
        return pd.concat(rows, ignore_index=True).dropna()

    def activations(self) -> dict[str, Any]:
        data_seeds, seeds = zip(*self.cell.members, strict=True)
        last = {"last": self.matrices[-1], "best": self.matrices[-1], "history": self.matrices}
        return {**last, "steps": self.steps.tolist(), "data_seeds": data_seeds, "seeds": seeds}

    def results(self, checkpoints: Sequence[str]) -> pd.DataFrame:
        cell, steps, seconds = self.cell, self.cell.protocol.training.steps, 12.0
        measured: dict[str, Any] = _measures(cell, self.matrices[-1])
        measured |= {"seconds": seconds, "members_times_steps_per_second": steps / seconds}
        values = {(name, IID): value for name, value in measured.items()}
        performance = {
            (name, condition): value
            for condition in cell.task.family.condition_names
            for name, value in _performance(cell, self.world, 1.0, condition).items()
        }
        tables = []
        for checkpoint in checkpoints:
            shares = {score: SHARE_OF[checkpoint] * value for score, value in performance.items()}
            tables.append(self._rows(values | shares).assign(checkpoint=checkpoint))
        shared = {**cell.columns, "num_modules": self.matrices.shape[-1], "num_parameters": 35_000}
        return pd.concat(tables, ignore_index=True).assign(**shared, steps=steps)

    def _rows(self, values: Mapping[tuple[str, str], Any]) -> pd.DataFrame:
        """Return one row for every (measure, condition) and member."""
        keys = [(*score, *member) for score in values for member in self.cell.members]
        rows = pd.DataFrame(keys, columns=["measure", "condition", "data_seed", "seed"])
        shape = len(values), len(self.cell.members)
        filled = [np.broadcast_to(value, shape[1:]) for value in values.values()]
        return rows.assign(value=np.reshape(filled, -1))


def _rng(*what: Any) -> np.random.Generator:
    return np.random.default_rng(int(science_hash(what), 16))


def _performance(cell: Cell, world: World, progress: float, condition: str) -> dict[str, np.ndarray]:
    """Loss, and error where it is a classification, of every member."""
    task, variant = cell.task, cell.variant
    floor = world.floor.get(variant, world.floor["modular"])(np.log2(task.num_rules) - 1)
    by_width = (32 / cell.width) ** 0.2
    loss = floor * by_width + np.exp(-world.speed.get(variant, 6) * progress * by_width)
    where = task.family.condition(condition)
    loss *= where.scale**0.9
    loss *= 1.0 if where.seq_len is None else 1 + 0.15 * abs(np.log2(where.seq_len / 10))
    values = []
    for data_seed, seed in cell.members:
        of_task = _rng(task.kind, task.num_rules, data_seed).normal() * 3 * world.noise
        of_seed = _rng(cell.columns, data_seed, seed).normal() * world.noise
        diverged = (variant, data_seed, seed) in world.diverged
        values.append(np.nan if diverged and progress > 0 else loss * np.exp(of_task + of_seed))
    losses = np.array(values)
    errors = {"error": np.minimum(40 * losses, 100.0)} if task.performance == "error" else {}
    return {"loss": losses, **errors}


def _activation(cell: Cell, world: World, progress: float) -> np.ndarray:
    """[P, R, M]"""
    num_rules = cell.task.num_rules
    if cell.variant == "monolithic":
        return np.ones((len(cell.members), num_rules, 1))
    num_modules = int(cell.router.get("modules", num_rules))
    curve = world.collapse.get(cell.variant, world.collapse["modular"])
    strength = float(np.clip(curve(np.log2(num_rules) - 1), 0, 0.95))
    exact = strength == 0.0
    matrices = []
    for member in cell.members:
        rng = _rng(cell.columns, member, "activation")
        order = np.arange(num_rules) if exact else rng.permutation(num_rules)
        served = np.where(rng.random(num_rules) < strength, order[0], order) % num_modules
        blur = 0.0 if exact else world.blur + (0.9 - world.blur) * np.exp(-4 * progress)
        noise = rng.dirichlet(np.full(num_modules, 2.0), size=num_rules)
        matrices.append((1 - blur) * np.eye(num_modules)[served] + blur * noise)
    return np.stack(matrices)


def _measures(cell: Cell, matrices: np.ndarray) -> dict[str, np.ndarray]:
    return {} if cell.variant == "monolithic" else measure_population(matrices)
