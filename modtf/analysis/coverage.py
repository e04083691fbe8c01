"""How often intervals are right with 3, 5 and 10 tasks, by simulation: why `intervals` is as it is.

    python -m modtf.analysis.coverage

prints the table of docs/statistics.md, in minutes. A task's value is drawn from one of `SHAPES`, of mean 0
and standard deviation 1; each of its seeds adds noise of half that. A claim that the mean is above 0 is then
false by a hair: an interval that lies above 0 supports it falsely, which 2.5% of studies should do.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.analysis.intervals import LEVEL, t_interval
from modtf.analysis.text import text_table

Array = NDArray[np.float64]
Interval = tuple[Array, Array]
NUM_SEEDS, NUM_RULES = 5, 3
SEED_NOISE = 0.5  # standard deviations of the tasks
SIGMA = 1.0  # of the logarithm of the skewed shape


def _skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    mean, variance = np.exp(SIGMA**2 / 2), np.expm1(SIGMA**2) * np.exp(SIGMA**2)
    return (rng.lognormal(0.0, SIGMA, shape) - mean) / np.sqrt(variance)


SHAPES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "skewed right": _skewed,  # lognormal: most tasks a little below, few far above
    "skewed left": lambda rng, shape: -_skewed(rng, shape),
    "heavy tails": lambda rng, shape: rng.standard_t(3, shape) / np.sqrt(3.0),
}


def percentile(values: Array, rng: np.random.Generator, resamples: int) -> Interval:
    """Percentiles of resampled means: tasks drawn anew, then seeds within each.

    Args:
        values: `[studies, tasks, seeds]`.
        rng: of the resampling; all studies share the resamples.
        resamples: their number.
    """
    studies, tasks, seeds = values.shape
    drawn = rng.integers(tasks, size=(resamples, tasks))
    weights = np.zeros((resamples, tasks * seeds))
    for place in range(tasks):
        columns = drawn[:, [place]] * seeds + rng.integers(seeds, size=(resamples, seeds))
        np.add.at(weights, (np.arange(resamples)[:, None], columns), 1.0 / (tasks * seeds))
    means = values.reshape(studies, -1) @ weights.T
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
    return low, high


def student_t(values: Array, rng: np.random.Generator, resamples: int) -> Interval:
    """What the project uses: seeds averaged, then Student's t over tasks."""
    tasks = values.mean(axis=2)
    count = np.full(len(tasks), tasks.shape[1])
    return t_interval(tasks.mean(axis=1), tasks.std(axis=1, ddof=1), count)


def bootstrap_t(values: Array, rng: np.random.Generator, resamples: int) -> Interval:
    """Seeds averaged, then the resampled distribution of the t statistic over tasks.

    A resample that draws one task alone has no spread, so no t: it is left out.
    """
    tasks = values.mean(axis=2)
    count = tasks.shape[1]
    drawn = rng.integers(count, size=(resamples, count))
    low, high = np.empty(len(tasks)), np.empty(len(tasks))
    for index, one in enumerate(tasks):
        mean, error = one.mean(), one.std(ddof=1) / np.sqrt(count)
        again = one[drawn]
        errors = again.std(axis=1, ddof=1) / np.sqrt(count)
        known = errors > 1e-12 * error
        t = (again.mean(axis=1)[known] - mean) / errors[known]
        small, large = np.quantile(t, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        low[index], high[index] = mean - large * error, mean - small * error
    return low, high


def rates(
    num_studies: int, resamples: int, seed: int = 0, counts: tuple[int, ...] = (3, 5, 10)
) -> Iterator[dict[str, object]]:
    """Rows of: shape, tasks, method, coverage, false_support (shares of the studies)."""
    for shape, draw in SHAPES.items():
        for tasks in counts:
            rng = np.random.default_rng(seed)
            effects = draw(rng, (num_studies, tasks, 1))
            noise = (num_studies, tasks, NUM_SEEDS * NUM_RULES)
            values = effects + SEED_NOISE * rng.standard_normal(noise)
            one_r = values[:, :, :NUM_SEEDS]
            # the same tasks under several R, taken for as many tasks
            overcounted = values.reshape(num_studies, tasks * NUM_RULES, NUM_SEEDS)
            for name, method, sample in (
                ("percentile bootstrap, R as tasks", percentile, overcounted),
                ("percentile bootstrap", percentile, one_r),
                ("bootstrap-t", bootstrap_t, one_r),
                ("Student's t", student_t, one_r),
            ):
                low, high = method(sample, rng, resamples)
                covers = float(((low <= 0) & (high >= 0)).mean())
                yield {
                    "shape": shape,
                    "tasks": tasks,
                    "method": name,
                    "coverage": covers,
                    "false_support": float((low > 0).mean()),
                    "width": float(np.median(high - low)),
                }


def main() -> None:
    """Prints the table: coverage and false support, in percent."""
    frame = pd.DataFrame(rates(20_000, 1_000))
    said = [f"{row.coverage:.1%} / {row.false_support:.1%}" for row in frame.itertuples()]
    table = frame.assign(said=said).pivot(index=["shape", "method"], columns="tasks", values="said")
    table = table.reindex(pd.MultiIndex.from_frame(frame[["shape", "method"]].drop_duplicates()))
    rows = [[f"{shape}: {method}", *row] for (shape, method), *row in table.itertuples(name=None)]
    print(text_table(["coverage / false support", *(f"{n} tasks" for n in table)], rows))


if __name__ == "__main__":
    main()
