import numpy as np
import pandas as pd
import pytest
from scipy import stats

from modtf.analysis.claims import Claim, Evidence, judge, mean_evidence, number_words
from modtf.analysis.claims.evidence import agreement_evidence, share_evidence
from modtf.analysis.claims.judge import CONTRADICTED, NOT_ENOUGH, SUPPORTED, UNDECIDED, combine
from modtf.analysis.pairs import as_ratio, share_error

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
