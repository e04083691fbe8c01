import numpy as np
import pandas as pd
import pytest
from scipy import stats

from modtf.analysis import IN, compare_pairs, holm, match_members, rank, votes
from modtf.analysis.pairs import as_one_family, share_error, two_sided


def rows(losses, **changes):
    """losses[variant][task][seed] as performance rows."""
    shared = {"arch": "mlp", "setting": "regression", "task_options": "", "num_rules": 2, "width": 32}
    shared |= {"model_options": "", "measure": "loss", "condition": "iid", "checkpoint": "last"}
    shared |= {"distribution": IN, **changes}
    return pd.DataFrame(
        {**shared, "variant": variant, "data_seed": t, "seed": s, "value": v}
        for variant, tasks in losses.items()
        for t, seeds in enumerate(tasks)
        for s, v in enumerate(seeds)
    )


TWO = {"monolithic": [[1.0, 2.0], [4.0, 4.0]], "modular": [[0.5, 2.0], [3.0, 5.0]]}
PAIR = [("modular", "monolithic")]


def test_pairs_match_task_and_seed():
    pairs = match_members(rows(TWO), "modular", "monolithic")
    assert pairs["gain"].tolist() == [0.5, 0.0, 1.0, -1.0]
    assert pairs["advantage"].tolist() == [0.5, 0.0, 0.25, -0.2]
    wide = rows({"modular (modules=4)": TWO["modular"]}, model_options="modules=4")
    assert len(match_members(pd.concat([rows(TWO), wide]), "modular (modules=4)", "monolithic")) == 4
    perfect = match_members(rows({"monolithic": [[0.0]], "modular": [[0.0]]}), "modular", "monolithic")
    assert perfect["advantage"].tolist() == [0.0]


def test_a_comparison_by_hand():
    row = compare_pairs(rows(TWO), pairs=PAIR).iloc[0]
    gains = np.array([0.5, 0.0, 1.0, -1.0])
    assert row["gain"] == pytest.approx(gains.mean())
    assert row["effect_size"] == pytest.approx(gains.mean() / gains.std(ddof=1))
    assert row["wins"] == pytest.approx((1 + 0.5 + 1 + 0) / 4)
    assert (row["num_tasks"], row["num_models"]) == (2, 4)
    assert row["gain_high"] - row["gain"] == pytest.approx(12.706 * 0.25 / np.sqrt(2) / np.sqrt(2), rel=1e-3)


@pytest.mark.parametrize("best", ["modular", "monolithic"])
def test_advantages_that_all_lie_at_their_limit_have_an_interval_and_p(best):
    """One variant has no error in any of three tasks, as in a share of three votes that are alike."""
    losses = {"modular": [[1.0], [2.0], [3.0]], "monolithic": [[1.0], [2.0], [3.0]], best: [[0.0]] * 3}
    (row,) = compare_pairs(rows(losses), pairs=PAIR).itertuples()
    (share,) = rank(votes(rows(losses), list(losses))).query("variant == 'modular'").itertuples()
    ends = row.advantage_low, row.advantage, row.advantage_high
    assert ends == pytest.approx([2 * end - 1 for end in (share.low, share.share, share.high)])
    assert ends[0] < ends[2]
    table = pd.DataFrame({"gain": ends[1], "low": ends[0], "high": ends[2], "num_tasks": [3]})
    error = 2 * share_error(pd.Series([1.0]), pd.Series([3]))
    assert two_sided(table) == pytest.approx(2 * stats.t.sf(1 / error, 2))
    assert two_sided(table)[0] > 0.1


def test_a_comparison_has_the_columns_that_were_asked_for():
    named = rows(TWO).assign(group="a")
    assert compare_pairs(named, PAIR, by=["group", "distribution"])["group"].tolist() == ["a"]


def test_all_comparisons_of_a_table_are_one_family_of_tests():
    losses = {
        "monolithic": [[1.0], [4.0], [3.0]],
        "modular": [[0.5], [3.0], [2.9]],
        "top_k": [[1.1], [4.0], [2.8]],
    }
    two = rows({name: tasks[:2] for name, tasks in losses.items()}, setting="classification")
    found = as_one_family(
        compare_pairs(pd.concat([rows(losses), two]), [(n, "monolithic") for n in ("modular", "top_k")])
    )
    known = found[found["num_tasks"] == 3]
    p = [
        stats.ttest_rel(np.ravel(losses["monolithic"]), np.ravel(losses[name])).pvalue
        for name in known["first"]
    ]
    np.testing.assert_allclose(known["p"], p)
    np.testing.assert_allclose(known["p_corrected"], holm(p))
    assert found["p"].isna().sum() == 2  # two tasks: no test


def test_any_two_variants_are_a_pair():
    """Neighbouring variants form pairs; if the family knows fewer than two, each pairs with the first."""
    losses = TWO["modular"]
    for names, pairs in {
        ("gt_modular", "monolithic"): [("gt_modular", "monolithic")],
        ("switch", "top_k", "gt_modular"): [("switch", "gt_modular"), ("top_k", "gt_modular")],
        ("switch", "top_k"): [("top_k", "switch")],
        ("switch",): [],
    }.items():
        table = compare_pairs(rows(dict.fromkeys(names, losses)))
        assert list(zip(table["first"], table["second"], strict=True)) == pairs


def test_models_without_a_partner_are_left_out_and_those_that_diverged_are_counted():
    frame = rows(TWO)
    frame = frame[~((frame["variant"] == "modular") & (frame["seed"] == 1))]
    assert compare_pairs(frame, pairs=PAIR).iloc[0]["num_models"] == 2
    assert compare_pairs(frame).shape[0] == 1  # the other pairs are not there
    assert compare_pairs(frame[frame["variant"] == "modular"]).empty
    row = compare_pairs(rows({**TWO, "modular": [[np.nan, 2.0], [3.0, 5.0]]}), pairs=PAIR).iloc[0]
    assert (row["num_models"], row["num_missing"]) == (3, 1)
    assert row["wins"] == pytest.approx((0.5 + (1 + 0) / 2) / 2)  # of the tasks


@pytest.mark.parametrize("task", [{}, {"setting": "classification", "measure": "error"}])
def test_one_vote_per_task_for_the_smallest_mean(task):
    cast = votes(rows(TWO, **task), ["monolithic", "modular"])
    won = cast.pivot(index="data_seed", columns="variant", values="vote")
    assert won["modular"].tolist() == [1.0, 0.5]  # means 1.25 < 1.5, and 4 = 4: the vote is shared
    assert cast.groupby("data_seed")["vote"].sum().tolist() == [1.0, 1.0]


def test_only_tasks_with_all_candidates_vote_and_only_shared_seeds_count():
    losses = {"monolithic": [[1.0, 0.1]], "modular": [[0.9]]}  # seed 1 is easy, modular does not have it
    cast = votes(rows(losses), ["monolithic", "modular"]).set_index("variant")["vote"]
    assert cast["modular"] == 1.0
    assert votes(rows(TWO)).empty


@pytest.mark.parametrize("lost", [np.nan, np.inf])
def test_a_task_with_a_model_that_diverged_has_no_vote_and_a_seed_that_was_not_run_is_left_out(lost):
    losses = {"monolithic": [[1.0, lost], [1.0, 9.0], [1.0, 1.0]], "modular": [[2.0, 2.0], [2.0], [2.0, 2.0]]}
    cast = votes(rows(losses), list(losses))
    won = cast.pivot(index="data_seed", columns="variant", values="vote")["monolithic"]
    np.testing.assert_array_equal(won, [np.nan, 1.0, 1.0])
    (row,) = rank(cast).query("variant == 'monolithic'").itertuples()
    assert (row.share, row.num_tasks, row.num_votes) == (1.0, 2, 2)


def test_shares_are_means_of_votes_with_intervals_inside_0_and_1():
    losses = {"monolithic": [[1.0], [1.0], [1.0], [3.0]], "modular": [[2.0], [2.0], [2.0], [2.0]]}
    table = rank(votes(rows(losses), list(losses))).set_index("variant")
    assert table["share"].to_dict() == {"monolithic": 0.75, "modular": 0.25}
    assert (table["num_votes"] == 4).all()
    assert (table["low"].min(), table["high"].max()) == (0.0, 1.0)
    equal = {"monolithic": [[1.0]] * 3, "modular": [[2.0]] * 3}  # equal votes are not certain
    row = rank(votes(rows(equal), list(equal))).set_index("variant").loc["monolithic"]
    assert row["share"] == row["high"] == 1.0
    assert row["low"] < 0.5
