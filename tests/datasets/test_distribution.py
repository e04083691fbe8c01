"""Draws have the distributions that the tasks name. Seeds are fixed: these tests never flicker."""

import numpy as np
import pytest
from scipy import stats

from modtf.tasks.task import SPLITS

P = 1e-4  # probability of a false alarm if the seed were not fixed


def normal_and_angles(task, inputs):
    """Return the `inputs` that should be N(0, 1), one column per position, and angles of unit vectors."""
    if dict(task.options).get("search") != "v2":
        return inputs.reshape(len(inputs), -1), None
    fields = inputs.reshape(-1, 6)
    first, second = fields[:, :2], fields[:, 2:4]
    for key in (first, second):
        np.testing.assert_allclose((key**2).sum(1), 1.0, atol=1e-6)
    angles = np.stack([np.arctan2(key[:, 1], key[:, 0]) for key in (first, second)], axis=1)
    return fields[:, 4:], angles


@pytest.mark.parametrize("split", ["train", "test"])
def test_inputs(draw, any_family, split):
    [(inputs, _, _)] = draw(any_family, 1, batch_size=2000, split=split)
    normal, angles = normal_and_angles(any_family, inputs)
    every = normal.ravel().astype(np.float64)
    assert stats.kstest(every, "norm").pvalue > P
    assert abs(every.mean()) < 4.5 / np.sqrt(every.size)
    assert abs(every.var() - 1) < 4.5 * np.sqrt(2 / every.size)
    for bound in (2.0, 3.0):
        expected = 2 * stats.norm.sf(bound) * every.size
        assert abs((np.abs(every) > bound).sum() - expected) < 4.5 * np.sqrt(expected)
    places = normal[:, :40].astype(np.float64)
    correlation = np.corrcoef(places.T) - np.eye(places.shape[1])
    assert np.abs(correlation).max() < 5 / np.sqrt(len(places))
    if angles is not None:
        assert stats.kstest(angles.ravel(), "uniform", args=(-np.pi, 2 * np.pi)).pvalue > P
        assert abs(np.corrcoef(angles.T)[0, 1]) < 5 / np.sqrt(len(angles))


@pytest.mark.parametrize("num_rules", [2, 32])
def test_rules_are_uniform_and_independent_of_inputs(draw, any_family, num_rules):
    [(inputs, rule, _)] = draw(any_family.replace(num_rules=num_rules), 1, batch_size=2000)
    assert stats.chisquare(np.bincount(rule.ravel(), minlength=num_rules)).pvalue > P
    first = rule.reshape(2000, -1)[:, 0]
    places = inputs.reshape(2000, -1)[:, :30]
    correlation = [np.corrcoef(first, place)[0, 1] for place in places.T]
    assert np.abs(correlation).max() < 5 / np.sqrt(2000)


@pytest.mark.parametrize("batch_size", [128, 2000])  # many steps in a block, and one where tokens are many
def test_rule_probs_by_step(draw, any_family, batch_size):
    probs = np.array([[1, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0], [0, 0, 0, 0.1, 0.9]])
    made = draw(any_family, 5, batch_size=batch_size, rule_probs=probs, start_step=7)
    for step, (_, rule, _) in enumerate(made, start=7):
        expected = probs[step % 3]
        counts = np.bincount(rule.ravel(), minlength=5)
        seen = expected > 0
        assert counts[~seen].sum() == 0
        assert seen.sum() == 1 or stats.chisquare(counts[seen], rule.size * expected[seen]).pvalue > P


def test_labels(draw, any_task):
    [(_, _, target)] = draw(any_task.replace(data_seed=0), 1, batch_size=2000)
    if any_task.setting == "classification":
        assert set(np.unique(target)) == {0.0, 1.0}
        assert abs(target.mean() - 0.5) < 0.03
    else:
        assert np.isfinite(target).all()
        assert abs(target.mean()) < 5 * target.std() / np.sqrt(len(target))


def test_streams_share_no_number(draw, any_family):
    """Splits, seeds, tasks, lengths and steps: no example occurs twice and nothing is correlated."""
    options = [{"split": split} for split in SPLITS] + [{"seed": 1}]
    made = [batch for option in options for batch in draw(any_family, 2, batch_size=500, **option)]
    made += draw(any_family.replace(data_seed=2), 1, batch_size=500)
    flat = np.stack([inputs.reshape(500, -1) for inputs, _, _ in made])
    rows = flat.reshape(-1, flat.shape[-1])
    assert len(np.unique(rows, axis=0)) == len(rows)
    correlation = np.corrcoef(flat.reshape(len(made), -1)) - np.eye(len(made))
    assert np.abs(correlation).max() < 5 / np.sqrt(flat[0].size)
    rules = np.stack([rule.ravel() for _, rule, _ in made])
    correlation = np.corrcoef(rules) - np.eye(len(made))
    assert np.abs(correlation).max() < 5 / np.sqrt(rules[0].size)


def test_a_length_is_a_stream_of_its_own(draw, any_family):
    if any_family.is_sequence:
        long, short = (draw(any_family, 1, batch_size=50, seq_len=n)[0][0] for n in (11, 10))
        assert not np.isin(short[:, 0, -2:], long[..., -2:]).all(1).any()
