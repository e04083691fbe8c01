import numpy as np
import pytest
from simulated_results import simulate

from modtf.analysis import IN, OUT, performance_rows, random_baseline, summarise
from modtf.results import CELL, load_history, load_results


@pytest.fixture(scope="module")
def frame(small_study):
    return load_results(small_study)


def test_means_are_those_of_pandas(frame):
    summary = summarise(frame)
    by = [*CELL, "checkpoint", "measure", "condition"]
    expected = frame.dropna().groupby(by, observed=True)["value"].mean()
    found = summary.set_index(by)["mean"].dropna()
    np.testing.assert_allclose(found[expected.index], expected)
    assert (summary["num_models"] + summary["num_missing"] == 6).all()
    known = summary[summary["num_models"] > 0]
    assert (known["num_tasks"] == 3).all()
    assert ((known["low"] <= known["mean"]) & (known["mean"] <= known["high"])).all()


def test_a_mean_over_different_things_is_refused(frame):
    with pytest.raises(ValueError, match="'setting'"):
        summarise(frame, by=["variant", "measure", "condition", "checkpoint", "num_rules"])
    rows = frame[(frame["measure"] == "alignment") & (frame["checkpoint"] == "last")]
    with pytest.raises(ValueError, match="'num_rules'"):
        summarise(rows, by=["variant", "setting"])
    assert len(summarise(rows, by=["variant", "setting"], over=["num_rules"])) == 6


def test_tasks_of_different_numbers_of_rules_are_the_same_tasks(frame):
    rows = frame[(frame["measure"] == "alignment") & (frame["checkpoint"] == "last")]
    assert (summarise(rows, by=["variant", "setting"], over=["num_rules"])["num_tasks"] == 3).all()


def test_unknown_columns_are_named(frame):
    with pytest.raises(ValueError, match="'depth'"):
        summarise(frame, by=["depth"])


def test_history_is_summarised_by_step(small_study):
    history = load_history(small_study)
    with pytest.raises(ValueError, match="'step'"):
        summarise(history, by=[*CELL, "measure"])
    assert set(summarise(history, by=[*CELL, "measure", "step"])["num_models"]) == {6}


def test_performance_is_loss_or_error_in_two_conditions(frame):
    rows = performance_rows(frame[frame["checkpoint"] == "last"])
    found = rows.groupby("setting", observed=True)["measure"].unique().map(list).to_dict()
    assert found == {"classification": ["error"], "regression": ["loss"]}
    found = rows.groupby("distribution", observed=True)["condition"].unique().map(list).to_dict()
    assert found == {IN: ["iid"], OUT: ["scale2"]}


def test_the_headline_condition_is_the_family_s(tmp_path):
    kinds: list[tuple[str, dict]] = [("rnn", {}), ("mlp", {})]
    grid = {"settings": ["regression"], "rules": [2], "data_seeds": [0], "seeds": [0]}
    simulate(tmp_path, kinds=kinds, **grid)
    rows = performance_rows(load_results(tmp_path)).query("distribution == @OUT")
    found = rows.groupby("arch", observed=True)["condition"].unique().map(list).to_dict()
    assert found == {"rnn": ["len30_scale2"], "mlp": ["scale2"]}
    every = performance_rows(load_results(tmp_path), headline=False)
    assert {"len3", "len20_scale2", "iid"} < set(every["condition"])


def test_random_activation_never_collapses_and_tells_nothing():
    baseline = random_baseline([2, 8, 8]).set_index(["num_rules", "measure"])["value"]
    assert baseline[8, "collapse_avg"] == baseline[8, "collapse_worst"] == 0.0
    assert baseline[8, "alignment"] == pytest.approx(1 - 1 / 8)
    assert baseline[2, "inverse_mutual_information"] == pytest.approx(1.0)
    assert len(baseline) == 10
