"""Writes result folders as training would, with effects that are known."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from modtf import Cell, Evaluation, Protocol, Study, Training
from modtf.families import IID
from modtf.metrics import measure_population
from modtf.results.manifest import write_manifest
from modtf.results.schema import CONFIG, VARIANTS, write_activations, write_history, write_results
from modtf.task import Task, science_hash

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


def simulate(
    out: Path,
    kinds: Iterable[tuple[str, Mapping[str, Any]]] = (("mlp", {}),),
    settings: Iterable[str] = ("regression", "classification"),
    rules: Iterable[int] = (2, 8, 32),
    widths: Iterable[int] = (32,),
    variants: Iterable[str | tuple[str, Mapping[str, Any]]] = VARIANTS,
    data_seeds: Sequence[int] = (0, 1, 2),
    seeds: Sequence[int] = (0, 1),
    world: World | None = None,
    training: Training = TRAINING,
    num_evaluations: int = 8,
    checkpoints: Sequence[str] = CHECKPOINTS,
) -> Path:
    """One folder for every cell of the grid; kinds: (family, options); variants: names, or with options."""
    members = tuple(product(data_seeds, seeds))
    protocol = Protocol(training, Evaluation())
    for (arch, options), setting, num_rules, width, variant in product(
        kinds, settings, rules, widths, variants
    ):
        name, router = (variant, {}) if isinstance(variant, str) else variant
        task = Task(arch, setting, num_rules, **options)
        cell = Cell(task, width, name, members, protocol, router)
        write_cell(out, cell, world, num_evaluations, checkpoints=checkpoints)
    return out


def study_of(out: Path, **grid: Any) -> Study:
    """The study of a small simulated grid: regression, histories of one evaluation, unless said otherwise."""
    sizes: dict[str, Any] = {"settings": ["regression"], "num_evaluations": 1} | grid
    return Study.read(simulate(out, **sizes))


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
    world = world or World()
    folder = Path(out, cell.folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(json.dumps({**cell.to_dict(), "version": version}))
    if not finished:
        return folder
    steps = np.linspace(0, cell.protocol.training.steps, num_evaluations + 1).astype(int)
    progress = steps / steps[-1]
    matrices = np.stack([_activation(cell, world, share) for share in progress])  # [E, P, R, M]
    measures = [_measures(cell, matrix) for matrix in matrices]
    history = []
    for step, share, of_matrix in zip(steps, progress, measures, strict=True):
        values = _performance(cell, world, share, IID) | of_matrix
        history += [_rows(cell, measure, IID, value).assign(step=step) for measure, value in values.items()]
    write_history(folder, pd.concat(history, ignore_index=True).dropna())
    data_seeds, seeds = zip(*cell.members, strict=True)
    arrays = {"last": matrices[-1], "best": matrices[-1], "history": matrices, "steps": steps.tolist()}
    write_activations(folder, **arrays, data_seeds=data_seeds, seeds=seeds)
    write_results(folder, _results(cell, world, measures[-1], matrices.shape[-1], checkpoints))
    write_manifest(folder, version=version)
    return folder


def _rows(cell: Cell, measure: str, condition: str, values: Any) -> pd.DataFrame:
    rows = pd.DataFrame(cell.members, columns=["data_seed", "seed"])
    return rows.assign(measure=measure, condition=condition, value=values)


def _results(
    cell: Cell,
    world: World,
    measures: Mapping[str, np.ndarray],
    num_modules: int,
    checkpoints: Sequence[str],
) -> pd.DataFrame:
    steps, seconds = cell.protocol.training.steps, 12.0
    speed = {"seconds": seconds, "members_times_steps_per_second": steps / seconds}
    tables = []
    for checkpoint in checkpoints:
        share = SHARE_OF[checkpoint]
        found = [_rows(cell, name, IID, value) for name, value in {**measures, **speed}.items()]
        for condition in cell.task.family.condition_names:
            values = _performance(cell, world, 1.0, condition)
            found += [_rows(cell, name, condition, share * value) for name, value in values.items()]
        tables.append(pd.concat(found).assign(checkpoint=checkpoint))
    shared = {**cell.columns, "num_modules": num_modules, "num_parameters": 35_000, "steps": steps}
    return pd.concat(tables, ignore_index=True).assign(**shared)


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
