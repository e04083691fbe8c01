"""What an evaluation found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from modtf.families import IID, Family

Rows = dict[tuple[str, str], np.ndarray]


@dataclass(frozen=True)
class Scores:
    """Measures of P members.

    Attributes:
        rows: (measure, name of the condition) -> values [P].
        activation: the activation matrices [P, R, M], float64.
        family: whose conditions they are.
    """

    rows: Rows
    activation: np.ndarray
    family: Family

    def member(self, index: int) -> dict[str, float]:
        """One member as a flat dict: "loss", "loss_scale2", "loss_len30_scale2", "alignment", ..."""
        return {
            self.family.condition(condition).of(measure): float(values[index])
            for (measure, condition), values in self.rows.items()
        }

    def in_distribution(self) -> dict[str, np.ndarray]:
        """measure -> values [P], in the condition of training."""
        return {measure: values for (measure, condition), values in self.rows.items() if condition == IID}


def mean_scores(found: Sequence[Scores]) -> Scores:
    """The mean of several evaluations of the same sizes."""
    first = found[0]
    rows = {key: np.mean([scores.rows[key] for scores in found], axis=0) for key in first.rows}
    return Scores(rows, np.mean([scores.activation for scores in found], axis=0), first.family)


def to_arrays(found: Sequence[Scores]) -> dict[str, np.ndarray]:
    """Several evaluations as arrays by name, for a checkpoint."""
    if not found:
        return {}
    arrays = {"activation": np.stack([scores.activation for scores in found])}
    for measure, condition in found[0].rows:
        arrays[f"{measure}|{condition}"] = np.stack([scores.rows[measure, condition] for scores in found])
    return arrays


def from_arrays(arrays: Mapping[str, np.ndarray], family: Family) -> list[Scores]:
    """What `to_arrays` was given."""
    rows = {}
    for name, values in arrays.items():
        measure, bar, condition = name.partition("|")
        if bar:
            rows[measure, condition] = values
    return [
        Scores({key: values[i] for key, values in rows.items()}, activation, family)
        for i, activation in enumerate(arrays.get("activation", ()))
    ]
