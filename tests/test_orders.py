"""The statistics of docs/scripts/draw_orders.py: two orders of routers."""

import draw_orders
import numpy as np
import pytest
from scipy.stats import spearmanr


def losses(truth, tasks, noise, generator):
    return truth[:, None] + noise * generator.normal(size=(len(truth), tasks))


def test_rank_correlation_is_scipys():
    first, second = np.array([1.0, 2.0, 2.0, 5.0, 3.0]), np.array([2.0, 1.0, 4.0, 4.0, 3.0])
    assert draw_orders.spearman(first, second) == pytest.approx(spearmanr(first, second).statistic)


@pytest.mark.parametrize(("agree", "word"), [(True, "predict the order"), (False, "do not predict")])
def test_orders_that_agree_and_orders_that_do_not(agree, word):
    generator = np.random.default_rng(3)
    truth, other = generator.normal(size=20), generator.normal(size=20)
    rules = [losses(truth, 5, 0.3, generator) for _ in range(2)]
    rules[0][0, 0] = np.inf  # one model diverged
    rho, low, high = draw_orders.order(rules, losses(truth if agree else other, 6, 0.3, generator), 300)
    assert low <= rho <= high
    assert (low > 0.6) == agree
    assert word in draw_orders.reading(low, high, rho)


def test_an_order_of_noise_alone_is_not_reliable():
    generator = np.random.default_rng(4)
    noise, signal = losses(np.zeros(20), 6, 1.0, generator), losses(np.arange(20.0), 6, 1.0, generator)
    assert draw_orders.reliability(draw_orders.halves([noise], 100)) < 0.5
    assert draw_orders.reliability(draw_orders.halves([signal], 100)) > 0.95


def test_a_group_explains_a_correlation():
    generator = np.random.default_rng(5)
    group = np.repeat([1.0, 2.0, 4.0, 8.0], 50)
    first, second = 5 * group + generator.normal(size=200), 5 * group + generator.normal(size=200)
    assert draw_orders.spearman(first, second) > 0.8
    assert abs(draw_orders.spearman(first, second, group)) < 0.3


def test_held_out_prediction():
    x = np.linspace(0, 1, 20)
    assert draw_orders.held_out(x, 3 * x + 1) == pytest.approx(1)
    y = np.random.default_rng(6).normal(size=20)
    apart = [np.polyval(np.polyfit(np.delete(x, n), np.delete(y, n), 1), x[n]) for n in range(20)]
    alone = [np.delete(y, n).mean() for n in range(20)]
    expected = 1 - np.sum((apart - y) ** 2) / np.sum((alone - y) ** 2)
    assert draw_orders.held_out(x, y) == pytest.approx(expected)
    assert expected < 0.3


def test_chance_is_exact_for_few_routers():
    """Three values: the largest correlation in both directions is 2 of 6 orders."""
    x = np.arange(3.0)
    assert draw_orders.chance(lambda y: draw_orders.spearman(x, y), x) == pytest.approx(2 / 6, abs=0.05)
    assert draw_orders.chance(lambda y: draw_orders.spearman(x, y), x, x) == 1


def test_every_learned_router_has_losses_in_the_rule_tasks():
    tables = draw_orders.rule_losses()
    assert {arch: table.shape for arch, table in tables.items()} == {"mlp": (20, 5), "rnn": (20, 5)}
    assert not any(table.isna().to_numpy().any() for table in tables.values())
