"""The results of an evaluation, some of whose members may have diverged."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modtf import metrics
from modtf.datasets.families.variations import input_bits
from modtf.tasks.condition import BY_FREQUENCY, GAP, IID
from modtf.tasks.families.varied import TRAIN_DATA, irreducible, option_of
from modtf.tasks.family import Family
from modtf.tasks.observed import at_place
from modtf.tasks.population import Population
from modtf.tasks.task import Task

MEASURES_OF_PERFORMANCE = ("loss", "error")
Rows = dict[tuple[str, str, str], np.ndarray]  # (measure, condition, place): values [P]


@dataclass(frozen=True)
class Scores:
    """Measures of P members, by condition or group of conditions. The place "" holds performance, and all
    measures of a model with a single routed layer."""

    rows: Rows
    activation: Mapping[str, np.ndarray]  # place -> the activation matrices [P, R, M] there, float64

    def named(self) -> dict[str, np.ndarray]:
        """Return the rows by name: "loss", "loss_scale2", "alignment", "alignment_root", ..."""
        return {row_name(*key): values for key, values in self.rows.items()}

    def member(self, index: int) -> dict[str, float]:
        """Return the values of one member by the same names."""
        return {name: float(values[index]) for name, values in self.named().items()}


def row_name(measure: str, condition: str = IID, place: str = "") -> str:
    """Return the name of a row without its table."""
    return at_place(measure if condition == IID else f"{measure}_{condition}", place)


def stack_scores(evaluations: Sequence[Scores]) -> Scores:
    """Return evaluations of the same sizes as one, with a new first axis: values [E, P], matrices [E, P, R,
    M]."""
    rows, activation = evaluations[0].rows, evaluations[0].activation
    return Scores(
        {key: np.stack([one.rows[key] for one in evaluations]) for key in rows},
        {place: np.stack([one.activation[place] for one in evaluations]) for place in activation},
    )


def mean_scores(evaluations: Sequence[Scores]) -> Scores:
    """Return the mean of several evaluations of the same sizes."""
    every = stack_scores(evaluations)
    return Scores(
        {key: values.mean(axis=0) for key, values in every.rows.items()},
        {place: matrices.mean(axis=0) for place, matrices in every.activation.items()},
    )


def without(scores: Scores, lost: np.ndarray) -> Scores:
    """Return the scores with NaN for some members, `lost` [P]."""
    return Scores(
        {key: np.where(lost, np.nan, values) for key, values in scores.rows.items()},
        {place: np.where(lost[:, None, None], np.nan, a) for place, a in scores.activation.items()},
    )


def to_arrays(evaluations: Sequence[Scores]) -> dict[str, np.ndarray]:
    """Return several evaluations as arrays by name, for a checkpoint."""
    if not evaluations:
        return {}
    every = stack_scores(evaluations)
    rows = {"|".join(key): values for key, values in every.rows.items()}
    return rows | {f"activation|{place}": matrices for place, matrices in every.activation.items()}


def from_arrays(arrays: Mapping[str, np.ndarray]) -> list[Scores]:
    """Return the scores that `to_arrays` wrote; other names are ignored."""
    keys = {name: tuple(name.split("|")) for name in arrays if "|" in name}
    count = max((len(arrays[name]) for name in keys), default=0)
    return [
        Scores(
            {key: arrays[name][i] for name, key in keys.items() if len(key) == 3},
            {key[1]: arrays[name][i] for name, key in keys.items() if len(key) == 2},
        )
        for i in range(count)
    ]


def rates(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return `metrics.from_counts`, with NaN for diverged members, whose sums are not finite."""
    finite = np.isfinite(sums).all(axis=(1, 2))[:, None, None]
    even = counts[..., None] / sums.shape[-1]
    return np.where(finite, metrics.from_counts(np.where(finite, sums, even), counts), np.nan)


def measure_members(
    activation: np.ndarray,
    *,
    groups: Iterable[str] | None = None,
    rule_probs: Sequence[float] | None = None,
    **sampled: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return `metrics.measure_population`, with NaN for diverged members."""
    matrices = {"A": activation, **sampled}
    finite = np.all([np.isfinite(matrix).all(axis=(1, 2)) for matrix in matrices.values()], axis=0)
    even = {
        name: np.where(finite[:, None, None], matrix, 1 / matrix.shape[-1])
        for name, matrix in matrices.items()
    }
    measured = metrics.measure_population(**even, rule_probs=rule_probs, groups=groups)
    return {name: np.where(finite, values, np.nan) for name, values in measured.items()}


def rows_of_sums(population: Population, states: Mapping[str, Mapping[str, np.ndarray]]) -> Rows:
    """Return loss and error by condition, from the variables of `PerformanceSums`, and the rows that the
    task's options add."""
    rows: Rows = {}
    for condition, sums in states.items():
        for measure in (m for m in MEASURES_OF_PERFORMANCE if m in sums):
            rows[measure, condition, ""] = _in_unit(measure, sums[measure] / float(sums["batches"]))
    task = population.task
    if option_of(task, "shift"):
        rows["input_bits", IID, ""] = np.array([input_bits(one) for one in population.tasks])
    probs = task.family.rule_probs(task)
    by_rule = {} if probs is None else by_frequency(states[IID], probs)
    rows, by_rule = _known_errors(rows), _known_errors(by_rule)
    return {**rows, **by_rule, **rows_beside(task, rows), **_group_means(rows, task.family)}


def _known_errors(rows: Rows) -> Rows:
    """Return the rows with NaN for an error whose loss is not finite: a logit that is NaN counts as an
    answer, so a diverged member would seem to guess."""
    lost = {key[1:]: ~np.isfinite(values) for key, values in rows.items() if key[0] == "loss"}
    return {
        key: np.where(lost[key[1:]], np.nan, values) if key[0] == "error" else values
        for key, values in rows.items()
    }


def by_frequency(sums: Mapping[str, np.ndarray], rule_probs: Sequence[float]) -> Rows:
    """Return loss and error of tokens with frequent and with rare rules, as the conditions "frequent" and
    "rare". A rule is rare if its frequency is below an equal share, 1/R."""
    rare, rows = np.array(rule_probs) < 1.0 / len(rule_probs) - 1e-9, Rows()
    for name, chosen in zip(BY_FREQUENCY, (~rare, rare), strict=True):
        tokens = sums["tokens_by_rule"][:, chosen].sum(axis=1)
        for measure in (m for m in MEASURES_OF_PERFORMANCE if m in sums):
            total = sums[f"{measure}_by_rule"][:, chosen].sum(axis=1)
            with np.errstate(invalid="ignore"):  # no token of a group: NaN
                rows[measure, name, ""] = _in_unit(measure, total / tokens)
    return rows


def _group_means(rows: Rows, family: Family) -> Rows:
    """Return the mean performance over each group of conditions that were all measured."""
    means: Rows = {}
    for group in family.groups:
        names = [condition.name for condition in family.conditions if condition.group == group]
        for measure in dict.fromkeys(measure for measure, *_ in rows):
            if all((measure, name, "") in rows for name in names):
                means[measure, group, ""] = np.mean([rows[measure, name, ""] for name in names], axis=0)
    return means


def rows_beside(task: Task, rows: Rows) -> Rows:
    """Return the rows that stand beside performance: the gap between test and training data, "loss_gap", and
    the least loss and error that label noise allows, "irreducible_loss" and "irreducible_error"."""
    found: Rows = {}
    for measure in (m for m in MEASURES_OF_PERFORMANCE if (m, IID, "") in rows):
        test = rows[measure, IID, ""]
        if (measure, TRAIN_DATA, "") in rows:
            found[f"{measure}_{GAP}", IID, ""] = test - rows[measure, TRAIN_DATA, ""]
        if (least := irreducible(task, measure)) is not None:
            found[f"irreducible_{measure}", IID, ""] = np.full_like(test, _in_unit(measure, least))
    return found


def _in_unit(measure: str, values: Any) -> Any:
    return values * (100.0 if measure == "error" else 1.0)
