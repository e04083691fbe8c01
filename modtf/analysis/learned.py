"""Every measure of the models that learned how to use their modules, from their activation matrices."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.analysis.intervals import UNIT
from modtf.evaluation.measures import measure_members
from modtf.metrics import GROUPS, activation_measures
from modtf.results import KIND

if TYPE_CHECKING:
    from modtf.analysis.loaded import LoadedStudy

CELL = ("num_rules", "width", "variant")  # of a kind
FIXED = 1e-6  # an activation that never changes by more was not learned


def learned_measures(study: "LoadedStudy") -> pd.DataFrame:
    """Every measure of the activation matrices of the models that learned how to use their modules.

    Left out are models of one module, and those whose activation is the same at every evaluation, the one
    before training included: `gt_modular`, `uniform`. Their alignment is chosen, not learned, and two extreme
    points would correlate whatever is not constant. At "tail" a measure is the mean over the last
    evaluations.

    Returns:
        One row per model: the columns of `KIND`, num_rules, width, variant, data_seed, seed, then the
        measures; NaN for a model that diverged.
    """
    rows = [
        pd.DataFrame(_measured(found.evaluations(study.checkpoint))).assign(
            **{name: found.cell[name] for name in (*KIND, *CELL)},
            data_seed=found.data_seeds,
            seed=found.seeds,
        )
        for found in study.activations()
        if found.last.shape[-1] > 1 and _is_learned(found.history)
    ]
    names = [measure.name for measure in activation_measures(GROUPS)]
    columns = [*KIND, *CELL, UNIT, "seed", *names]
    return pd.concat(rows, ignore_index=True)[columns] if rows else pd.DataFrame(columns=columns)


def _is_learned(history: NDArray[np.float64]) -> bool:
    """Whether activation `[E, P, R, M]` changed; a member that diverged says nothing of that."""
    with np.errstate(invalid="ignore"):
        return bool((np.abs(history - history[0]) > FIXED).any())


def _measured(matrices: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """measure -> values `[P]`: the mean over E of those of `[E, P, R, M]`."""
    found = measure_members(matrices.reshape(-1, *matrices.shape[2:]), groups=GROUPS)
    return {name: values.reshape(matrices.shape[:2]).mean(axis=0) for name, values in found.items()}
