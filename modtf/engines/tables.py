"""What a cell found, as the tables that `modtf.results` reads."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from modtf.cell import Cell
from modtf.evaluation.scores import Scores
from modtf.families import IID
from modtf.results.schema import DIVERGED
from modtf.training.callbacks.evaluate import EvaluateCallback


def results_table(
    cell: Cell, num_modules: int, num_parameters: int, scores: Mapping[str, Scores], seconds: float
) -> pd.DataFrame:
    """One row per member, checkpoint, measure and condition.

    Args:
        cell: what was trained.
        num_modules, num_parameters: of one member.
        scores: by checkpoint.
        seconds: that training took, without evaluations.
    """
    shared = {
        **cell.columns,
        "num_modules": num_modules,
        "num_parameters": num_parameters,
        "steps": cell.protocol.training.steps,
    }
    members = len(cell.members)
    speed = {
        "seconds": seconds / members,
        "members_times_steps_per_second": members * cell.protocol.training.steps / seconds,
    }
    clock = {(name, IID): np.full(members, value) for name, value in speed.items()}
    return pd.DataFrame(
        [
            {
                **shared,
                "data_seed": data_seed,
                "seed": seed,
                "checkpoint": checkpoint,
                "measure": measure,
                "condition": condition,
                "value": value,
            }
            for checkpoint, found in scores.items()
            for (measure, condition), values in {**found.rows, **clock}.items()
            for (data_seed, seed), value in zip(cell.members, values, strict=True)
        ]
    )


def history_table(cell: Cell, evaluation: EvaluateCallback, diverged_at: np.ndarray) -> pd.DataFrame:
    """One row per member, evaluation during training and measure.

    A member that diverged has a row more, of measure "diverged", at the very step.

    Args:
        cell: what was trained.
        evaluation: during training.
        diverged_at: steps [P], 0 where a member did not.
    """
    lost = zip(diverged_at, cell.members, strict=True)
    rows = [
        {
            "step": int(step),
            "data_seed": data_seed,
            "seed": seed,
            "measure": DIVERGED,
            "condition": IID,
            "value": 1.0,
        }
        for step, (data_seed, seed) in lost
        if step
    ]
    return pd.DataFrame(
        [
            {
                "step": step,
                "data_seed": data_seed,
                "seed": seed,
                "measure": measure,
                "condition": IID,
                "value": value,
            }
            for measure, series in evaluation.records.items()
            for step, values in zip(evaluation.steps, series, strict=True)
            for (data_seed, seed), value in zip(cell.members, values, strict=True)
        ]
        + rows
    )


def final_scores(scores: Scores) -> dict[str, float]:
    """Means over members by name: "loss", "loss_scale2", "alignment", ..."""
    members = [scores.member(index) for index in range(len(scores.activation))]
    return {name: float(np.mean([member[name] for member in members])) for name in members[0]}
