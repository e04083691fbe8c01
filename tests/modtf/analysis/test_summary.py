import numpy as np
import pytest

from modtf.results import CELL, load_history, load_results, performance_rows, random_baseline, summarise


@pytest.fixture(scope="module")
def frame(small_study):
    return load_results(small_study)


def test_means_are_those_of_pandas(frame):
    summary = summarise(frame)
    by = [*CELL, "checkpoint", "measure", "scale"]
    expected = frame.groupby(by)["value"].mean()
    found = summary.set_index(by)["mean"]
    np.testing.assert_allclose(found[expected.index], expected)
    assert (summary["num_models"] == 6).all()
    assert (summary["num_tasks"] == 3).all()
    assert ((summary["low"] <= summary["mean"] + 1e-12) & (summary["mean"] <= summary["high"] + 1e-12)).all()


def test_a_mean_over_different_things_is_refused(frame):
    with pytest.raises(ValueError, match="'setting'"):
        summarise(frame, by=["variant", "measure", "scale", "checkpoint", "num_rules"])
    rows = frame[(frame["measure"] == "alignment") & (frame["checkpoint"] == "last")]
    with pytest.raises(ValueError, match="'num_rules'"):
        summarise(rows, by=["variant", "setting"])
    assert len(summarise(rows, by=["variant", "setting"], over=["num_rules"])) == 6


def test_tasks_of_different_numbers_of_rules_are_different_tasks(frame):
    rows = frame[(frame["measure"] == "alignment") & (frame["checkpoint"] == "last")]
    assert (summarise(rows, by=["variant", "setting"], over=["num_rules"])["num_tasks"] == 9).all()


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
    assert rows.groupby("setting")["measure"].unique().map(list).to_dict() == {
        "classification": ["error"],
        "regression": ["loss"],
    }
    assert rows.groupby("condition")["scale"].unique().map(list).to_dict() == {
        "in distribution": [1.0],
        "out of distribution": [2.0],
    }


def test_lengths_of_the_conditions_are_the_published_ones(simulator, tmp_path):
    simulator.simulate(
        tmp_path, kinds=[("rnn", "")], settings=["regression"], rules=[2], data_seeds=[0], seeds=[0]
    )
    rows = performance_rows(load_results(tmp_path))
    found = rows.groupby("condition")["seq_len"].unique().map(list).to_dict()
    assert found == {"in distribution": [10], "out of distribution": [30]}


def test_random_activation_never_collapses_and_tells_nothing():
    baseline = random_baseline([2, 8, 8]).set_index(["num_rules", "measure"])["value"]
    assert baseline[8, "collapse_avg"] == baseline[8, "collapse_worst"] == 0.0
    assert baseline[8, "alignment"] == pytest.approx(1 - 1 / 8)
    assert baseline[2, "inverse_mutual_information"] == pytest.approx(1.0)
    assert len(baseline) == 10
