"""Evidence for claims, comparisons in pairs, and rankings by votes."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from modtf.analysis import IN, compare_pairs, holm, match_members, rank, votes
from modtf.analysis.claims import Claim, Evidence, judge, mean_evidence, number_words
from modtf.analysis.claims.evidence import agreement_evidence, share_evidence
from modtf.analysis.claims.judge import CONTRADICTED, NOT_ENOUGH, SUPPORTED, UNDECIDED, combine
from modtf.analysis.intervals import t_interval
from modtf.analysis.pairs import as_one_family, as_ratio, share_error, smallest_gain, two_sided

CLAIM = Claim(text="", figure="", statistic="", evidence=lambda study: iter(()))


def sample(values, **bounds):
    frame = pd.DataFrame({"data_seed": range(len(values)), "value": values})
    return mean_evidence(frame, "value", "it", **bounds)


def test_interval_and_p_are_those_of_the_t_test():
    values = [0.3, 0.1, 0.5, -0.1, 0.4]
    evidence = sample(values, above=0.2)
    expected = stats.ttest_1samp(values, 0.2, alternative="less")
    assert evidence.p_against == pytest.approx(expected.pvalue)
    assert evidence.p_for == pytest.approx(stats.ttest_1samp(values, 0.2, alternative="greater").pvalue)
    between = sample(values, within=0.6).p_for  # two one-sided tests
    sides = [
        stats.ttest_1samp(values, b, alternative=a).pvalue for b, a in ((-0.6, "greater"), (0.6, "less"))
    ]
    assert between == pytest.approx(max(sides))
    both = stats.ttest_1samp(values, 0.2).confidence_interval(0.95)
    assert evidence.interval == pytest.approx((both.low, both.high))


@pytest.mark.parametrize(
    ("values", "bounds", "supports", "p_is_small"),
    [
        ([0.10, 0.11, 0.12], {}, True, False),
        ([-0.10, -0.11, -0.12], {}, False, True),
        ([-0.1, 0.0, 0.1], {}, False, False),
        ([0.10, 0.11, 0.12], {"above": 0.2}, False, True),
        ([0.10, 0.11, 0.12], {"within": 0.2}, True, False),
        ([-0.10, -0.11, -0.12], {"within": 0.2}, True, False),
        ([0.30, 0.31, 0.32], {"within": 0.2}, False, True),
        ([-0.30, -0.31, -0.32], {"within": 0.2}, False, True),
        ([0.1, 0.2, 0.3], {"within": 0.2}, False, False),
        ([0.0, 0.0, 0.0], {}, False, False),  # at the border
        ([1.0, 1.0], {}, False, False),  # two tasks decide nothing
        ([], {}, False, False),
    ],
)
def test_where_the_interval_lies(values, bounds, supports, p_is_small):
    evidence = sample(values, **bounds)
    assert evidence.supports == supports
    assert (evidence.p_against <= 0.025) == p_is_small


def test_tasks_needed_would_decide():
    evidence = sample([0.3, -0.2, 0.4, 0.0])
    needed = evidence.tasks_needed()
    deviation = evidence.error * 2
    half = [stats.t.ppf(0.975, n - 1) * deviation / np.sqrt(n) for n in (needed - 1, needed)]
    assert half[0] >= evidence.value > half[1]
    assert evidence.tasks_needed(looks=10) > needed
    assert sample([0.1, -0.1, 0.00001]).tasks_needed() is None


def test_equal_votes_of_few_tasks_prove_nothing():
    """Three coin flips agree with probability 1/4, so three agreeing tasks prove nothing."""

    def share(tasks, votes=1):
        rows = [{"data_seed": t, "num_rules": r, "vote": 1.0} for t in range(tasks) for r in range(votes)]
        return share_evidence(pd.DataFrame(rows), "it", above=0.5)

    assert not share(3).supports
    assert not share(4).supports
    assert share(5).supports
    assert share(3, votes=20).supports  # sixty votes
    assert share(5).interval[1] == 1.0


def test_tasks_that_would_decide_are_those_of_the_side_that_the_number_lies_on():
    """They support on the claimed side and contradict on the other, corrected for all looks."""
    kinds = [("mlp", setting, "") for setting in ("regression", "classification")]
    right, wrong = Evidence("right", 0.1, 0.1, 5, 5), Evidence("wrong", -0.1, 0.1, 5, 5)
    pieces = [(kind, piece) for kind in kinds for piece in (right, wrong)]
    judged = judge._judge("it", CLAIM, pieces).set_index("evidence")
    assert set(judged["verdict"]) == {UNDECIDED}
    assert (judged["p_against"] > 0.025).all()
    assert set(judged.loc["right", "num_tasks_needed"]) == {right.tasks_needed()}
    assert set(judged.loc["wrong", "num_tasks_needed"]) == {wrong.tasks_needed(looks=4)}
    assert int(wrong.tasks_needed(looks=4) or 0) > int(right.tasks_needed() or 0)


def test_false_discoveries_are_counted_over_the_whole_table():
    """By hand: p of three claims, each with its largest p; BY is 1 + 1/2 + 1/3 times BH."""
    p_for = [("a", 0.01), ("a", 0.001), ("b", 0.04), ("c", 0.02), ("d", np.nan), ("d", 0.001), ("a", 0.9)]
    table = pd.DataFrame(p_for, columns=["claim", "p_for"])
    table = table.assign(kind="k", evidence_verdict=[*["supported"] * 6, "beside"])
    rates = judge._false_discoveries(table).droplevel("kind")
    expected = {"a": 0.03, "b": 0.04, "c": 0.03}
    assert rates["q"].to_dict() == pytest.approx(expected)
    assert rates["q_by"].to_dict() == pytest.approx({name: q * 11 / 6 for name, q in expected.items()})


def agreement(orders):
    """Evidence of tasks, each a list of 1 (two variants ordered alike) or -1, one for each R."""
    shared = {"arch": "mlp", "setting": "regression", "task_options": "", "width": 32}
    rows = [
        {**shared, "data_seed": task, "num_rules": rules, "variant": name, "first": x, "second": x * sign}
        for task, signs in enumerate(orders)
        for rules, sign in enumerate(signs, 2)
        for name, x in (("modular", 1.0), ("gt_modular", 2.0))
    ]
    return agreement_evidence(pd.DataFrame(rows), "first", "second", "it")


def test_orders_that_all_agree_are_no_surer_than_as_many_votes():
    three, many = agreement([[1]] * 3), agreement([[1] * 4] * 5)
    assert three.value == many.value == 1
    assert not three.supports  # three coins would do
    assert many.supports
    assert many.error == pytest.approx(2 * share_error(pd.Series([1.0]), pd.Series([20])).iloc[0])
    assert three.interval[1] == many.interval[1] == 1
    mixed = agreement([[1, 1], [1, -1], [1, 1]])
    assert mixed.error == pytest.approx(np.std([1, 0, 1], ddof=1) / np.sqrt(3))


@pytest.mark.parametrize("sign", [1, -1])
def test_advantages_that_all_lie_at_their_limit_are_no_surer_than_as_many_votes(sign):
    """One variant has no error in any task, the other has: the advantage cannot vary."""

    def evidence(tasks):
        frame = pd.DataFrame({"data_seed": range(tasks), "advantage": float(sign)})
        return mean_evidence(frame, "advantage", "it")

    three, six = evidence(3), evidence(6)
    assert three.error == pytest.approx(2 * share_error(pd.Series([1.0]), pd.Series([3])).iloc[0])
    assert not three.supports
    assert min(three.p_for, three.p_against) > 0.05
    assert six.supports == (sign > 0)
    low, high = sorted(sign * end for end in six.interval)
    assert 0 < low < high == 1
    (row,) = judge._judge("it", CLAIM, [(("mlp", "regression", ""), three)]).itertuples()
    assert row.verdict == UNDECIDED


def test_a_claim_needs_all_and_one_refutes_it():
    assert combine([SUPPORTED, SUPPORTED]) == SUPPORTED
    assert combine([SUPPORTED, UNDECIDED]) == UNDECIDED
    assert combine([UNDECIDED, NOT_ENOUGH]) == NOT_ENOUGH
    assert combine([SUPPORTED, NOT_ENOUGH, CONTRADICTED]) == CONTRADICTED


def test_tasks_that_all_lie_at_the_border_decide_nothing():
    at, above, below = (sample([x, x, x], above=0.5) for x in (0.5, 0.75, 0.25))
    assert [piece.p_against for piece in (at, above, below)] == [0.5, 1.0, 0.0]
    assert sample([0.5, -0.5, 0.0], within=0.0).p_against == 0.5


def test_a_ratio_without_an_interval():
    row = pd.Series({"value": 0.2, "low": np.nan, "high": np.nan, "is_ratio": True})
    assert number_words(row) == "0.80 times"
    assert np.isnan(as_ratio(np.nan))


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


@pytest.mark.parametrize(("tasks", "power"), [(3, 0.766), (5, 0.791), (30, 0.800)])
def test_the_smallest_gain_is_found_with_the_power_that_the_docstring_says(tasks, power):
    low, high = t_interval(1.0, 2.0, tasks)
    row = pd.DataFrame({"gain": [1.0], "low": [low], "high": [high], "num_tasks": [tasks]})
    errors = smallest_gain(row)[0] / (2.0 / np.sqrt(tasks))
    found = stats.nct.sf(stats.t.ppf(0.975, tasks - 1), tasks - 1, errors)
    assert found == pytest.approx(power, abs=1e-3)
    assert np.isnan(smallest_gain(row.assign(num_tasks=2))).all()


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
