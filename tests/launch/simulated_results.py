"""Writes result folders as training would, with effects that are known."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from modtf.metrics import measure_all
from modtf.results.schema import CELL, CONFIG, VARIANTS, write_activations, write_history, write_results
from modtf.task import science_hash

KINDS = (("mlp", ""), ("mha", "v1"), ("mha", "v2"), ("rnn", ""))
LENGTHS = (3, 5, 10, 20, 30)


@dataclass(frozen=True)
class World:
    """What is true in the simulated study."""

    # Loss at many steps as a function of the variant and x = log2(R) - 1, which is 0 at R = 2.
    floor: dict[str, Callable[[float], float]] = field(
        default_factory=lambda: {
            "monolithic": lambda x: 0.20 + 0.10 * x,
            "modular": lambda x: 0.19 + 0.09 * x,
            "modular_op": lambda x: 0.19 + 0.05 * x,
            "gt_modular": lambda x: 0.19 + 0.005 * x,
        }
    )
    # Which share of the rules is served by the wrong module, and how blurred activation is.
    collapse: dict[str, Callable[[float], float]] = field(
        default_factory=lambda: {
            "modular": lambda x: 0.15 + 0.18 * x,
            "modular_op": lambda x: 0.05 + 0.10 * x,
            "gt_modular": lambda x: 0.0,
        }
    )
    noise: float = 0.05  # standard deviation of log loss between seeds; between tasks it is thrice that


def simulate(
    out: Path,
    kinds: Iterable[tuple[str, str]] = (("mlp", ""),),
    settings: Iterable[str] = ("regression", "classification"),
    rules: Iterable[int] = (2, 8, 32),
    widths: Iterable[int] = (32,),
    variants: Iterable[str] = VARIANTS,
    data_seeds: Sequence[int] = (0, 1, 2),
    seeds: Sequence[int] = (0, 1),
    world: World | None = None,
    training: dict[str, Any] | None = None,
    num_evaluations: int = 8,
) -> Path:
    """One folder for every cell of the grid; returns `out`."""
    world = world or World()
    members = [(d, s) for d in data_seeds for s in seeds]
    training = {"steps": 4000, "learning_rate": 1e-4, "batch_size": 256, "clipnorm": None} | (training or {})
    for arch, search in kinds:
        for setting in settings:
            for num_rules in rules:
                for width in widths:
                    for variant in variants:
                        values = (arch, setting, search, num_rules, width, variant)
                        cell = dict(zip(CELL, values, strict=True))
                        write_cell(out, cell, members, world, training, num_evaluations)
    return out


def write_cell(
    out: Path,
    cell: dict[str, Any],
    members: list[tuple[int, int]],
    world: World,
    training: dict[str, Any],
    num_evaluations: int = 8,
    finished: bool = True,
) -> Path:
    """One cell, with every file that a report reads."""
    config = {
        "cell": cell | {"search": cell["search"] or None, "members": [list(m) for m in members]},
        "training": training,
        "evaluation": {"batches": 100, "tokens": 100_000},
        "preset": "quick",
        "version": "0.1.0",
    }
    label = "_".join(str(v) for v in cell.values() if v)
    folder = out / f"{label}-{science_hash(config, 4)}"
    folder.mkdir(parents=True)
    (folder / CONFIG).write_text(json.dumps(config))
    if not finished:
        return folder
    steps = np.linspace(0, training["steps"], num_evaluations + 1).astype(int)[1:]
    progress = steps / steps[-1]
    matrices = np.stack([[_activation(cell, m, world, p) for m in members] for p in progress])  # [E, P, R, M]
    results, history = [], []
    for index, member in enumerate(members):
        results += _results(cell, member, world, training, matrices[-1, index])
        for step, share, matrix in zip(steps, progress, matrices[:, index], strict=True):
            values = {"loss": _loss(cell, member, world, share)} | _measures(cell, matrix)
            if cell["setting"] == "classification":
                values["error"] = 40 * values["loss"]
            history += [(step, *member, name, value) for name, value in values.items()]
    columns = ["data_seed", "seed", "checkpoint", "scale", "seq_len", "measure", "value"]
    frame = pd.DataFrame(results, columns=columns).assign(**cell, num_parameters=35_000, steps=steps[-1])
    write_history(
        folder, pd.DataFrame(history, columns=["step", "data_seed", "seed", "measure", "value"]).dropna()
    )
    write_activations(
        folder,
        last=matrices[-1],
        best=matrices[-1],
        history=matrices,
        steps=steps.tolist(),
        data_seeds=[d for d, _ in members],
        seeds=[s for _, s in members],
    )
    write_results(folder, frame)
    return folder


def _rng(cell: dict[str, Any], member: tuple[int, int], what: str) -> np.random.Generator:
    return np.random.default_rng(int(science_hash([cell, member, what]), 16))


def _loss(cell: dict[str, Any], member: tuple[int, int], world: World, progress: float = 1.0) -> float:
    task = {k: v for k, v in cell.items() if k not in ("variant", "width")}
    of_task = _rng(task, (member[0], 0), "task").normal() * 3 * world.noise
    of_seed = _rng(cell, member, "seed").normal() * world.noise
    floor = world.floor[cell["variant"]](np.log2(cell["num_rules"]) - 1)
    by_width = (32 / cell["width"]) ** 0.2
    return float((floor * by_width + np.exp(-6 * progress * by_width)) * np.exp(of_task + of_seed))


def _activation(cell: dict[str, Any], member: tuple[int, int], world: World, progress: float) -> np.ndarray:
    num_rules = cell["num_rules"]
    if cell["variant"] == "monolithic":
        return np.ones((num_rules, 1))
    rng = _rng(cell, member, "activation")
    strength = float(np.clip(world.collapse[cell["variant"]](np.log2(num_rules) - 1), 0, 0.95))
    exact = strength == 0.0
    permutation = np.arange(num_rules) if exact else rng.permutation(num_rules)
    wrong = rng.random(num_rules) < strength
    matrix = np.eye(num_rules)[np.where(wrong, permutation[0], permutation)]
    blur = 0.0 if exact else 0.1 + 0.8 * np.exp(-4 * progress)
    return (1 - blur) * matrix + blur * rng.dirichlet(np.full(num_rules, 2.0), size=num_rules)


def _measures(cell: dict[str, Any], matrix: np.ndarray) -> dict[str, float]:
    return {} if cell["variant"] == "monolithic" else measure_all(matrix)


def _results(
    cell: dict[str, Any],
    member: tuple[int, int],
    world: World,
    training: dict[str, Any],
    matrix: np.ndarray,
) -> list[tuple[Any, ...]]:
    lengths = (None,) if cell["arch"] == "mlp" else LENGTHS
    at_training = None if cell["arch"] == "mlp" else 10
    rows = []
    for checkpoint, factor in (("last", 1.0), ("best", 0.98)):
        for scale in (1.0, 2.0):
            for length in lengths:
                loss = _loss(cell, member, world) * factor * scale**0.9
                loss *= 1.0 if length is None else 1 + 0.15 * abs(np.log2(length / 10))
                rows.append((*member, checkpoint, scale, length, "loss", loss))
                if cell["setting"] == "classification":
                    rows.append((*member, checkpoint, scale, length, "error", 40 * loss))
        for name, value in _measures(cell, matrix).items():
            rows.append((*member, checkpoint, 1.0, at_training, name, value))
        rows.append((*member, checkpoint, 1.0, at_training, "seconds", 12.0))
        speed = training["steps"] / 12.0
        rows.append((*member, checkpoint, 1.0, at_training, "members_times_steps_per_second", speed))
    return rows
