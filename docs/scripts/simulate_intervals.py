"""Simulate how often intervals of 3, 5 and 10 tasks are right: `python docs/scripts/simulate_intervals.py`.

It prints the table of docs/statistics.md within minutes. A task's value is drawn from one of `SHAPES`, with
mean 0 and standard deviation 1; each of its seeds adds noise of half that. A claim that the mean is above 0
is then just false. An interval above 0 supports it wrongly, which 2.5% of studies should do.
"""

import numpy as np
import pandas as pd

from modtf.analysis import t_interval
from modtf.pages.text import text_table

NUM_SEEDS, NUM_RULES = 5, 3
ENDS = (0.025, 0.975)


def skewed(rng, shape):  # lognormal: most tasks a little below, few far above
    return (rng.lognormal(0.0, 1.0, shape) - np.exp(0.5)) / np.sqrt(np.expm1(1.0) * np.exp(1.0))


SHAPES = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "skewed right": skewed,
    "skewed left": lambda rng, shape: -skewed(rng, shape),
    "heavy tails": lambda rng, shape: rng.standard_t(3, shape) / np.sqrt(3.0),
}


def percentile(values, rng, resamples):
    """Return percentiles of resampled means: tasks are resampled, then seeds within each."""
    studies, tasks, seeds = values.shape
    drawn = rng.integers(tasks, size=(resamples, tasks))
    weights = np.zeros((resamples, tasks * seeds))
    for place in range(tasks):
        columns = drawn[:, [place]] * seeds + rng.integers(seeds, size=(resamples, seeds))
        np.add.at(weights, (np.arange(resamples)[:, None], columns), 1.0 / (tasks * seeds))
    return np.quantile(values.reshape(studies, -1) @ weights.T, ENDS, axis=1)


def student_t(values, rng, resamples):
    """Return the project's interval: seeds averaged, then Student's t over tasks."""
    tasks = values.mean(axis=2)
    return t_interval(tasks.mean(axis=1), tasks.std(axis=1, ddof=1), np.full(len(tasks), tasks.shape[1]))


def bootstrap_t(values, rng, resamples):
    """Return the bootstrap-t interval of seed means over tasks; resamples of one single task have no t."""
    tasks = values.mean(axis=2)
    count = tasks.shape[1]
    drawn, bounds = rng.integers(count, size=(resamples, count)), []
    for one in tasks:
        mean, error, again = one.mean(), one.std(ddof=1) / np.sqrt(count), one[drawn]
        errors = again.std(axis=1, ddof=1) / np.sqrt(count)
        known = errors > 1e-12 * error
        small, large = np.quantile((again.mean(axis=1)[known] - mean) / errors[known], ENDS)
        bounds.append((mean - large * error, mean - small * error))
    return np.array(bounds).T


def rates(num_studies, resamples):
    """Return one row of: shape, tasks, method, coverage, false_support (shares of the studies)."""
    for shape, draw in SHAPES.items():
        for tasks in (3, 5, 10):
            rng = np.random.default_rng(0)
            effects = draw(rng, (num_studies, tasks, 1))
            values = effects + rng.standard_normal((num_studies, tasks, NUM_SEEDS * NUM_RULES)) / 2
            one_r = values[:, :, :NUM_SEEDS]
            overcounted = values.reshape(num_studies, tasks * NUM_RULES, NUM_SEEDS)  # counts each R as a task
            for name, method, sample in (
                ("percentile bootstrap, R as tasks", percentile, overcounted),
                ("percentile bootstrap", percentile, one_r),
                ("bootstrap-t", bootstrap_t, one_r),
                ("Student's t", student_t, one_r),
            ):
                low, high = method(sample, rng, resamples)
                yield shape, tasks, name, ((low <= 0) & (high >= 0)).mean(), (low > 0).mean()


def looked_twice(num_studies):
    """Return the share of studies with an interval above 0 after five tasks, or after five more."""
    values = np.random.default_rng(0).standard_normal((num_studies, 10))
    found = np.zeros(num_studies, bool)
    for tasks in (5, 10):
        seen = values[:, :tasks]
        low, _ = t_interval(seen.mean(axis=1), seen.std(axis=1, ddof=1), np.full(num_studies, tasks))
        found |= low > 0
    return found.mean()


def table(num_studies, resamples):
    columns = ["shape", "tasks", "method", "coverage", "false_support"]
    return pd.DataFrame(rates(num_studies, resamples), columns=columns)


if __name__ == "__main__":
    print(f"false support of studies that look after 5 and after 10 tasks: {looked_twice(1_000_000):.1%}")
    frame = table(20_000, 1_000)
    frame["words"] = [f"{row.coverage:.1%} / {row.false_support:.1%}" for row in frame.itertuples()]
    wide = frame.set_index(["shape", "method", "tasks"])["words"].unstack("tasks")
    print(text_table(["coverage / false support", *map(str, wide)], wide.reset_index().values.tolist()))
