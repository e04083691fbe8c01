import numpy as np
import pandas as pd
import pytest
from scipy import stats

from modtf.analysis.resampling import Bootstrap, bootstrap_weights, intervals


def table(values, **columns):
    """values[task][seed] as rows."""
    rows = [
        {"data_seed": t, "seed": s, "value": v, **columns}
        for t, seeds in enumerate(values)
        for s, v in enumerate(seeds)
    ]
    return pd.DataFrame(rows)


def test_agrees_with_a_bootstrap_written_as_loops():
    rng = np.random.default_rng(1)
    values = [rng.normal(t, 1.0, size=n).tolist() for t, n in enumerate([3, 5, 2, 4])]
    means = []
    for _ in range(6_000):
        tasks = rng.integers(4, size=4)
        means.append(np.mean([np.mean(rng.choice(values[t], size=len(values[t]))) for t in tasks]))
    row = intervals(table(values), [], bootstrap=Bootstrap(20_000)).iloc[0]
    assert row["mean"] == pytest.approx(np.mean([np.mean(v) for v in values]))
    np.testing.assert_allclose(
        row[["low", "high"]].astype(float), np.quantile(means, [0.025, 0.975]), atol=0.03
    )
    assert (row["num_tasks"], row["num_models"]) == (4, 14)


def test_weights_are_means_of_whole_resamples():
    weights = bootstrap_weights((2, 3, 1), 500, 0)
    assert weights.shape == (500, 6)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    per_task = np.add.reduceat(weights, [0, 2, 5], axis=1) * 3  # how often each task was drawn
    np.testing.assert_allclose(per_task, per_task.round(), atol=1e-12)


def test_the_spread_of_the_means_is_the_theoretical_one():
    """T tasks x S seeds: var = (variance of task means) / T + (mean variance within tasks) / (T S)."""
    values = np.random.default_rng(2).normal(size=(6, 4)) + np.arange(6)[:, None]
    weights = bootstrap_weights((4,) * 6, 40_000, 3)
    expected = values.mean(axis=1).var() / 6 + values.var(axis=1).mean() / 24
    assert (weights @ values.ravel()).var() == pytest.approx(expected, rel=0.03)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(4)
    data = [
        table((rng.normal(size=(20, 1)) + rng.normal(size=(20, 3))).tolist(), study=i) for i in range(400)
    ]
    found = intervals(pd.concat(data), ["study"], bootstrap=Bootstrap(400))
    covered = int(((found["low"] < 0) & (found["high"] > 0)).sum())
    assert stats.binomtest(covered, 400, 0.95).proportion_ci(0.999).high > 0.93
    assert covered < 400


def test_a_row_does_not_depend_on_the_rest_of_the_table():
    rng = np.random.default_rng(5)
    parts = [table(rng.normal(size=(3, 2)).tolist(), variant=name) for name in "abc"]
    together = intervals(pd.concat(parts).sample(frac=1, random_state=0), ["variant"]).set_index("variant")
    for part, name in zip(parts, "abc", strict=True):
        alone = intervals(part, ["variant"]).iloc[0]
        np.testing.assert_allclose(
            together.loc[name, ["mean", "low", "high"]].astype(float),
            alone[["mean", "low", "high"]].astype(float),
        )


def test_the_seed_decides():
    frame = table(np.random.default_rng(6).normal(size=(6, 4)).tolist())
    assert intervals(frame, [], bootstrap=Bootstrap(seed=1)).equals(
        intervals(frame, [], bootstrap=Bootstrap(seed=1))
    )
    assert not intervals(frame, []).equals(intervals(frame, [], bootstrap=Bootstrap(seed=1)))


def test_one_model_has_no_interval_and_one_task_only_that_of_its_seeds():
    row = intervals(table([[2.0]]), []).iloc[0]
    assert row["mean"] == 2.0
    assert np.isnan(row["low"])
    row = intervals(table([[1.0, 3.0]]), []).iloc[0]
    assert (row["low"], row["high"], row["num_tasks"]) == (1.0, 3.0, 1)


def test_tasks_weigh_the_same():
    assert intervals(table([[0.0] * 9, [1.0]]), []).iloc[0]["mean"] == 0.5


def test_what_is_not_finite_is_left_out_and_counted():
    frame = table([[1.0, np.nan], [3.0, np.inf]])
    row = intervals(frame, []).iloc[0]
    assert (row["mean"], row["num_models"], row["num_missing"]) == (2.0, 2, 2)
    row = intervals(table([[np.nan]]), []).iloc[0]
    assert np.isnan(row["mean"])
    assert (row["num_models"], row["num_missing"]) == (0, 1)


@pytest.mark.parametrize("bad", [{"resamples": 0}, {"level": 1.0}, {"level": 0.0}])
def test_bad_settings_are_refused(bad):
    with pytest.raises(ValueError, match="resamples"):
        Bootstrap(**bad)
