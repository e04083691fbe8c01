"""Whether a learned router finds the groups of sub-tasks: its matrix against that of permuted sub-tasks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.analysis.trained import TrainedModels

Models = Sequence[NDArray[Any]]  # matrices [R, M] of a task's models


@dataclass(frozen=True)
class Chance:
    """A measure of a router against groups, beside what groups dealt to other sub-tasks reach."""

    tasks: NDArray[np.float64]  # of each [T]
    permuted: NDArray[np.float64]  # [permutations, T]

    @property
    def interval(self) -> tuple[float, float]:
        """Where 95% of the means over tasks lie by chance."""
        low, high = np.quantile(self.permuted.mean(axis=1), [0.025, 0.975])
        return float(low), float(high)

    @property
    def p(self) -> float:
        """How probable a mean over tasks as small is, where groups are nothing to the router.

        Exact: every task has permutations of its own, and sub-tasks as they are count as one.
        """
        as_small = self.permuted.mean(axis=1) <= self.tasks.mean() + 1e-9  # equal ones differ by rounding
        return float((1 + as_small.sum()) / (1 + len(as_small)))


def against_chance(
    tasks: Sequence[Models],
    groups: Sequence[int],
    measure: Callable[[NDArray[Any]], float],
    permutations: int = 1_000,
) -> Chance:
    """A measure of matrices whose rows are averaged by group, and the same with permuted rows.

    Args:
        tasks: of each the matrices of its models, rows p(module | sub-task).
        groups: of each sub-task, from 0 [R].
        measure: of a matrix [groups, M]; smaller is better.
        permutations: of each task; its models share them.

    Example:
        >>> from modtf.metrics import alignment
        >>> groups = [0, 0, 0, 1, 1, 1]
        >>> found = against_chance([[np.eye(2)[groups]]], groups, alignment)
        >>> float(found.tasks.mean()), round(found.p, 1)  # one grouping in ten is this one, by name or not
        (0.0, 0.1)
    """
    member = np.arange(max(groups) + 1)[:, None] == np.asarray(groups)
    average = member / member.sum(axis=1, keepdims=True)  # [groups, R]
    generator, rows = np.random.RandomState(0), np.arange(len(groups))

    def of(order: NDArray[Any], models: Models) -> float:
        return float(np.mean([measure(average @ matrix[order]) for matrix in models]))

    permuted = [[of(generator.permutation(rows), one) for one in tasks] for _ in range(permutations)]
    return Chance(np.array([of(rows, one) for one in tasks]), np.array(permuted))


def routed(study: TrainedModels, place: str = "encoder") -> tuple[dict[int, list[NDArray[Any]]], list[int]]:
    """The matrices of the variant `routed` by data seed, without those that diverged, and the group of each
    sub-task.

    Args:
        study: of one question; nothing is found where each sub-task there is a group of its own.
        place: where it is routed.
    """
    places = study.cells[0].definition.task.places if study.cells else {}
    if f"{place}_groups" not in places:
        return {}, []
    group_of: Any = places[f"{place}_groups"].rules
    found: dict[int, list[NDArray[Any]]] = {}
    for cell in study.activations(place, variant="routed"):
        for data_seed, matrix in zip(cell.data_seeds, cell.at(study.checkpoint), strict=True):
            if np.isfinite(matrix).all():
                found.setdefault(int(data_seed), []).append(matrix)
    rules: Any = places[place].rules
    return found, [group_of[rule] for rule in rules]
