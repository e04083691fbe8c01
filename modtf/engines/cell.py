"""Trains, evaluates and writes one cell: what `launch/run.py` and every study are made of."""

import contextlib
import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd

import modtf
from modtf.training.callbacks.best import BestWeights
from modtf.training.callbacks.evaluate import EvaluateCallback
from modtf.training.callbacks.tensorboard import TensorBoardWriter
from modtf.cell import Cell
from modtf.evaluation.evaluator import Evaluator, Scores
from modtf.files import atomic_path, write_text
from modtf.models.build import build
from modtf.results.schema import RESULTS, write_activations, write_history, write_results
from modtf.training.fit import largest_divisor, train


def run_cell(cell: Cell, out: str | Path, *, strategy: Any = None, verbose: bool = True) -> Path:
    """Runs a cell, or finishes one that was killed, or finds it finished.

    Args:
        cell: what to run.
        out: the folder of the study; the cell has a folder of its own in it.
        strategy: a `tf.distribute.Strategy`, or None for the default device.
        verbose: whether to show a progress bar.

    Returns:
        The cell's folder: `config.json`, `results.csv` (written last), `history.csv`, `activation.npz`,
        `last.keras`, `best.keras`, `tensorboard/`.
    """
    folder = Path(out, cell.folder)
    if (folder / RESULTS).exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "config.json", json.dumps({**cell.to_dict(), "version": modtf.__version__}, indent=1))
    tasks, seeds, training = cell.tasks, cell.seeds, cell.training
    checkpoint = folder / "checkpoint.npz"
    with strategy.scope() if strategy is not None else contextlib.nullcontext():
        model = build(tasks, cell.variant, cell.width, seeds)
        per_epoch = training.steps // largest_divisor(training.steps, training.evaluations)
        evaluation = EvaluateCallback(tasks, cell.evaluation.smaller(10), per_epoch)
        best = BestWeights(model, len(tasks))
        settings = {k: str(v) for k, v in cell.to_dict()["cell"].items() if k != "members" and v is not None}
        board = TensorBoardWriter(folder / "tensorboard", settings, len(tasks), per_epoch)
        evaluation.listeners += [
            best,
            board,
            lambda step, record, activation: board.speed(step, evaluation.seconds[-1]),
        ]
        train(
            model,
            tasks,
            training.steps,
            batch_size=training.batch_size,
            learning_rate=training.learning_rate,
            clipnorm=training.clipnorm,
            evaluations=training.evaluations,
            evaluation=evaluation,
            checkpoint=checkpoint,
            stateful=[best],
            callbacks=[board],
            verbose=verbose,
            label=cell.label,
        )
        scores = {}
        evaluator = Evaluator(model, tasks, cell.evaluation)
        for name, weights in (("last", None), ("best", best.weights)):
            if weights is not None:
                for variable, value in zip(model.trainable_variables, weights, strict=True):
                    variable.assign(value)
            with atomic_path(folder / f"{name}.keras") as temporary:
                model.save(temporary)
            scores[name] = evaluator.run()
    seconds = sum(evaluation.seconds)
    frame = _tidy(cell, model, scores, seconds)
    board.final(training.steps, _final(frame))
    data_seeds = [task.data_seed for task in tasks]
    write_activations(
        folder,
        last=scores["last"].activation,
        best=scores["best"].activation,
        history=np.stack(evaluation.activations),
        steps=evaluation.steps,
        data_seeds=data_seeds,
        seeds=seeds,
    )
    write_history(folder, _history(cell, evaluation))
    write_results(folder, frame)
    checkpoint.unlink(missing_ok=True)
    return folder


def _tidy(cell: Cell, model: keras.Model, scores: dict[str, Scores], seconds: float) -> pd.DataFrame:
    """One row per member, checkpoint and measure."""
    shared = {
        "arch": cell.task.arch,
        "setting": cell.task.setting,
        "search": cell.task.search,
        "num_rules": cell.task.num_rules,
        "width": cell.width,
        "variant": cell.variant,
        "num_parameters": model.num_parameters,
        "steps": cell.training.steps,
    }
    members = len(cell.members)
    speed = {
        "seconds": seconds / members,
        "members_times_steps_per_second": members * cell.training.steps / seconds,
    }
    rows = []
    for checkpoint, found in scores.items():
        length = next(iter(found.rows))[2]
        values = {**found.rows, **{(name, 1.0, length): np.full(members, v) for name, v in speed.items()}}
        for (measure, scale, seq_len), per_member in values.items():
            for (data_seed, seed), value in zip(cell.members, per_member, strict=True):
                condition = {"checkpoint": checkpoint, "measure": measure, "scale": scale, "seq_len": seq_len}
                rows.append({**shared, "data_seed": data_seed, "seed": seed, **condition, "value": value})
    return pd.DataFrame(rows)


def _final(frame: pd.DataFrame) -> dict[str, float]:
    """Means over members at the last checkpoint, named for TensorBoard."""
    last = frame[frame["checkpoint"] == "last"]
    means = last.groupby(["measure", "scale", "seq_len"], dropna=False, sort=False)["value"].mean()
    return {
        f"{measure}_scale{scale:g}" + ("" if pd.isna(length) else f"_len{length:g}"): value
        for (measure, scale, length), value in means.items()
    }


def _history(cell: Cell, evaluation: EvaluateCallback) -> pd.DataFrame:
    rows = [
        {"step": step, "data_seed": data_seed, "seed": seed, "measure": measure, "value": value}
        for measure, series in evaluation.records.items()
        for step, values in zip(evaluation.steps, series, strict=True)
        for (data_seed, seed), value in zip(cell.members, values, strict=True)
    ]
    return pd.DataFrame(rows)
