import numpy as np
import pandas as pd
import pytest

from modtf.results import compare_pairs, load_results, performance_rows, rank, votes
from modtf.analysis.paired import match_members
from modtf.analysis.performance import IN


def rows(losses, **changes):
    """losses[variant][task][seed] as performance rows."""
    shared = {"arch": "mlp", "setting": "regression", "search": "", "num_rules": 2, "width": 32}
    shared |= {"measure": "loss", "scale": 1.0, "seq_len": pd.NA, "condition": IN, "checkpoint": "last"}
    return pd.DataFrame(
        [
            {**shared, "variant": variant, "data_seed": t, "seed": s, "value": value, **changes}
            for variant, tasks in losses.items()
            for t, seeds in enumerate(tasks)
            for s, value in enumerate(seeds)
        ]
    ).astype({"seq_len": "Int64"})


TWO = {"monolithic": [[1.0, 2.0], [4.0, 4.0]], "modular": [[0.5, 2.0], [3.0, 5.0]]}


def test_pairs_match_task_and_seed():
    pairs = match_members(rows(TWO), "modular", "monolithic")
    assert pairs["gain"].tolist() == [0.5, 0.0, 1.0, -1.0]
    assert pairs["advantage"].tolist() == [0.5, 0.0, 0.25, -0.2]


def test_a_comparison_by_hand():
    row = compare_pairs(rows(TWO), pairs=[("modular", "monolithic")]).iloc[0]
    gains = np.array([0.5, 0.0, 1.0, -1.0])
    assert row["gain"] == pytest.approx(gains.mean())
    assert row["effect_size"] == pytest.approx(gains.mean() / gains.std(ddof=1))
    assert row["wins"] == pytest.approx((1 + 0.5 + 1 + 0) / 4)
    assert (row["num_tasks"], row["num_models"]) == (2, 4)
    assert row["gain_low"] <= row["gain"] <= row["gain_high"]


def test_models_without_a_partner_are_left_out():
    frame = rows(TWO)
    frame = frame[~((frame["variant"] == "modular") & (frame["seed"] == 1))]
    assert compare_pairs(frame, pairs=[("modular", "monolithic")]).iloc[0]["num_models"] == 2
    assert compare_pairs(frame).shape[0] == 1  # the other pairs are not there
    assert compare_pairs(frame[frame["variant"] == "modular"]).empty


def test_two_perfect_models_are_equal():
    pairs = match_members(rows({"monolithic": [[0.0]], "modular": [[0.0]]}), "modular", "monolithic")
    assert pairs["advantage"].tolist() == [0.0]


def test_one_vote_per_task_for_the_smallest_mean():
    cast = votes(rows(TWO), ["monolithic", "modular"])
    won = cast.pivot(index="data_seed", columns="variant", values="vote")
    assert won["modular"].tolist() == [1.0, 0.5]  # means 1.25 < 1.5, and 4 = 4: the vote is shared
    assert cast.groupby("data_seed")["vote"].sum().tolist() == [1.0, 1.0]


def test_error_not_accuracy_wins():
    cast = votes(rows(TWO, setting="classification", measure="error"), ["monolithic", "modular"])
    assert cast[cast["variant"] == "modular"]["vote"].sum() == 1.5


def test_only_shared_seeds_count():
    losses = {"monolithic": [[1.0, 0.1]], "modular": [[0.9]]}  # seed 1 is easy, modular does not have it
    cast = votes(rows(losses), ["monolithic", "modular"]).set_index("variant")["vote"]
    assert cast["modular"] == 1.0


def test_tasks_without_all_candidates_do_not_vote():
    assert votes(rows(TWO)).empty
    with pytest.raises(ValueError, match="more than once"):
        votes(pd.concat([rows(TWO), rows(TWO, checkpoint="best")]), ["monolithic", "modular"])


def test_shares_sum_to_one(small_study):
    frame = load_results(small_study)
    cast = votes(performance_rows(frame[frame["checkpoint"] == "last"]))
    ranking = rank(cast, ["condition", "setting"])
    assert np.allclose(ranking.groupby(["condition", "setting"])["share"].sum(), 1.0)
    assert (ranking["num_votes"] == 9).all()
    assert ((ranking["low"] <= ranking["share"]) & (ranking["share"] <= ranking["high"])).all()
