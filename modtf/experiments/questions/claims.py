"""The claims of the studies of digits and SQOOP: gains in error on new combinations, paired by data seed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.analysis.claims.evidence import Evidence, mean_evidence
from modtf.analysis.claims.registry import Find, Found, documented_claim
from modtf.analysis.learned import has_learned
from modtf.analysis.pairs import match_members
from modtf.analysis.rows import IN, OUT
from modtf.analysis.trained import TrainedModels
from modtf.experiments.questions.digits import MAIN, PUBLISHED_EXAMPLES
from modtf.experiments.questions.sets import DIGITS, PLAIN, SQOOP, TREES, number
from modtf.metrics import MEASURES

LEARNED = 10.0  # % error in distribution; above it, other combinations are not judged
NOT_LEARNED = f"accuracy in distribution is below {100 - LEARNED:g}%"
MODEL = ["width", "data_seed", "seed"]  # models that agree in these are compared
CLOSE, GAP, SMALL, RESIDUAL = 2.0, 5.0, 2.0, 3.0  # margins in points, chosen by modtf
MODULAR = ("group_all_all", "group_group_group", "sub_sub_sub")  # the main libraries with a modular encoder

Models = Sequence[NDArray[Any]]  # matrices [R, M] of a task's models
SHOWN_BY = "sqoop_accuracy", "gain in points of error"


def errors(study: TrainedModels, distribution: str, *names: str) -> pd.DataFrame:
    """Return the error of every width, data seed and seed, a column for each variant."""
    rows = study.performance
    rows = rows[(rows["distribution"] == distribution) & rows["variant"].isin(names)]
    table = rows.pivot_table("value", MODEL, "variant", observed=True)
    return table.reindex(columns=list(names)).dropna().reset_index()


def over(study: TrainedModels, first: str, second: str, where: str = OUT, **bounds: float | None) -> Found:
    """Yield the gain of the first over the second; out of distribution only if both are learned."""
    name = f"{first} over {second}"
    if where == OUT and not learned(study, first, second):
        yield Evidence(name, lacking=NOT_LEARNED)
        return
    rows = study.performance
    pairs = match_members(rows[rows["distribution"] == where], first, second)
    yield mean_evidence(pairs, "gain", name, level=study.level, **bounds)  # type: ignore[arg-type]


def learned(study: TrainedModels, *names: str) -> bool:
    """Return whether all variants that were run answer the training combinations, at every width."""
    seen = errors(study, IN, *names).groupby("width")
    return all(has_learned(part[name], 1.0, LEARNED) for _, part in seen for name in names)


@dataclass(frozen=True)
class Chance:
    """A measure of a router against groups, beside what groups dealt to other sub-tasks reach."""

    tasks: NDArray[np.float64]  # the value of each task [T]
    permuted: NDArray[np.float64]  # [permutations, T]

    @property
    def interval(self) -> tuple[float, float]:
        """Return the interval of 95% of the means over tasks by chance."""
        low, high = np.quantile(self.permuted.mean(axis=1), [0.025, 0.975])
        return float(low), float(high)

    @property
    def p(self) -> float:
        """Return the probability of a mean over tasks as small, if the router ignores groups.

        Exact: every task has permutations of its own, and sub-tasks as they are count as one.
        """
        as_small = self.permuted.mean(axis=1) <= self.tasks.mean() + 1e-9  # equal means differ by rounding
        return float((1 + as_small.sum()) / (1 + len(as_small)))


def against_chance(
    tasks: Sequence[Models],
    groups: Sequence[int],
    measure: Callable[[NDArray[Any]], float],
    permutations: int = 1_000,
) -> Chance:
    """Return a measure of matrices whose rows are averaged by group, and the same with permuted rows.

    Args:
        tasks: the matrices of each task's models, rows p(module | sub-task).
        groups: the group of each sub-task, from 0 [R].
        measure: function of a matrix [groups, M]; smaller is better.
        permutations: their number per task; the models of a task share them.

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
    """Return the matrices of the variant `routed` by data seed, without diverged ones, and the group of each
    sub-task.

    Args:
        study: of one question; nothing is found where each sub-task there is a group of its own.
        place: where it is routed.
    """
    places = study.cells[0].definition.task.places if study.cells else {}
    if f"{place}_groups" not in places:
        return {}, []
    group_of: Any = places[f"{place}_groups"].rules
    by_task: dict[int, list[NDArray[Any]]] = {}
    for cell in study.activations(place, variant="routed"):
        for data_seed, matrix in zip(cell.data_seeds, cell.at(study.checkpoint), strict=True):
            if np.isfinite(matrix).all():
                by_task.setdefault(int(data_seed), []).append(matrix)
    rules: Any = places[place].rules
    return by_task, [group_of[rule] for rule in rules]


def claim(
    *variants: str, figure: str = "novel_accuracy_vs_combinations", statistic: str = "gain in points of error"
) -> Callable[[Find], Find]:
    """`documented_claim` of these variants."""
    return documented_claim(figure, statistic, variants=variants, families=[DIGITS])


def gaps(study: TrainedModels) -> Evidence:
    """Return how much worse the main libraries are on combinations never seen."""
    if not learned(study, *MAIN):
        return Evidence("out of less in distribution", lacking=NOT_LEARNED)
    both = [errors(study, where, *MAIN).set_index(MODEL) for where in (IN, OUT)]
    gap = (both[1] - both[0]).mean(axis=1).rename("gap").reset_index()
    return mean_evidence(gap, "gap", "out of less in distribution", above=GAP, level=study.level)


@claim("all_all_all", "group_all_all")
def group_encoders_beat_one(study: TrainedModels) -> Found:
    """encoders per group beat one for all on combinations never seen."""
    yield from over(study, "group_all_all", "all_all_all")


@claim("sub_all_all", "group_all_all")
def group_encoders_beat_those_per_sub_task(study: TrainedModels) -> Found:
    """encoders per group beat encoders per sub-task on combinations never seen."""
    yield from over(study, "group_all_all", "sub_all_all")


@claim("all_all_all", "sub_all_all")
def encoders_per_sub_task_beat_one(study: TrainedModels) -> Found:
    """encoders per sub-task beat one for all on combinations never seen."""
    yield from over(study, "sub_all_all", "all_all_all")


@claim("all_all_all", "all_all_group", "all_all_sub")
def classifiers_gain_nothing(study: TrainedModels) -> Found:
    """modular classifiers gain less than 2 points over one for all."""
    for name in ("all_all_group", "all_all_sub"):
        # one classifier gains more than -2: the others gain less than 2
        yield from over(study, "all_all_all", name, above=-SMALL)


@claim(*MAIN, figure="iid_accuracy_vs_combinations")
def libraries_are_alike_in_distribution(study: TrainedModels) -> Found:
    """in distribution the main libraries are within 2 points, and over 5 better than out of it."""
    for first, second in combinations(MAIN, 2):
        yield from over(study, second, first, IN, within=CLOSE)
    yield gaps(study)


@claim("group_all_all", "all_sub_all", "all_all_all_bn", "all_sub_all_bn")
def group_encoders_beat_the_usual(study: TrainedModels) -> Found:
    """encoders per group beat modules per sub-task, and batch normalisation."""
    for name in ("all_sub_all", "all_all_all_bn", "all_sub_all_bn"):
        yield from over(study, "group_all_all", name)


@claim("group_all_all", "sub_sub_sub", "sub_subfind_sub")
def residual_or_find_is_alike(study: TrainedModels) -> Found:
    """modules all per sub-task are within 3 points with Residual or Find, and worse than group encoders."""
    yield from over(study, "sub_sub_sub", "sub_subfind_sub", within=RESIDUAL)
    for name in ("sub_sub_sub", "sub_subfind_sub"):
        yield from over(study, "group_all_all", name)


@claim("all_mixed_all", "sub_mixed_all")
def modular_encoders_beat_one_of_mixed_modules(study: TrainedModels) -> Found:
    """with mixed modules, too, encoders per sub-task beat one for all."""
    yield from over(study, "sub_mixed_all", "all_mixed_all")


@claim(*MAIN, figure="libraries_bars")
def more_data_do_not_close_the_gap(study: TrainedModels) -> Found:
    """with ten times the data the gap stays over 5 points, and libraries with modular encoders are best."""
    options = ",".join(study.results["task_options"].unique())
    if number(options, "examples", PUBLISHED_EXAMPLES) <= PUBLISHED_EXAMPLES:
        return
    yield gaps(study)
    if "question=attribute" in options:
        for name in MAIN:
            if name != "group_group_group":
                yield from over(study, "group_group_group", name)
    if "question=comparison" in options:
        for first, second in product(MODULAR, [name for name in MAIN if name not in MODULAR]):
            yield from over(study, first, second)


@claim("routed", figure="activation", statistic="alignment below that of permuted sub-tasks")
def the_router_finds_groups(study: TrainedModels) -> Found:
    """a learned router of encoders finds the groups of sub-tasks."""
    tasks, groups = routed(study)
    if tasks:
        measure = MEASURES["alignment"].function
        assert measure is not None  # it is a measure of matrices
        compared = against_chance(list(tasks.values()), groups, measure, permutations=100)
        gain = compared.permuted.mean(axis=0) - compared.tasks
        frame = pd.DataFrame({"data_seed": list(tasks), "gain": gain})
        yield mean_evidence(frame, "gain", "permuted sub-tasks less those as they are", level=study.level)


@documented_claim(*SHOWN_BY, variants=(*TREES, *PLAIN), families=[SQOOP])
def trees_beat_plain_networks(study: TrainedModels) -> Found:
    """on pairs never seen, module networks beat FiLM and MAC."""
    for tree, plain in product(TREES, PLAIN):
        yield from over(study, tree, plain)


@documented_claim(*SHOWN_BY, variants=TREES, families=[SQOOP])
def modules_per_symbol_beat_one(study: TrainedModels) -> Found:
    """on pairs never seen, an intermediate module per object and relation beats one for all."""
    yield from over(study, TREES[1], TREES[0])
