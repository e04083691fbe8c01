"""The options of `modtf.families.varied`: each against its definition, computed anew in NumPy."""

import numpy as np
import pytest
from scipy import stats

from modtf import Task
from modtf.families.varied import zipf

ARCHS = ("mlp", "mha", "rnn")
P = 1e-4  # probability of a false alarm if the seed were not fixed
#: task options and its condition -> the frequencies of rules 0, 1, 2
FREQUENCIES = [
    ({"zipf": 1.0}, "iid", [6 / 11, 3 / 11, 2 / 11]),
    ({"zipf": 2.0}, "scale2", [36 / 49, 9 / 49, 4 / 49]),
    ({"zipf": 1.0}, "reversed_frequencies", [2 / 11, 3 / 11, 6 / 11]),
    ({}, "reversed_frequencies", [2 / 11, 3 / 11, 6 / 11]),
]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("options", "condition", "expected"), FREQUENCIES)
def test_frequencies(draw, arch, options, condition, expected):
    task = Task(arch, num_rules=3, **options)
    given = {"batch_size": 2000, "split": "test", **task.condition(condition).stream_options()}
    [(inputs, rule, _)] = draw(task, 1, **given)
    assert stats.chisquare(np.bincount(rule.ravel()), rule.size * np.array(expected)).pvalue > P
    del given["options" if condition.startswith("reversed") else "split"]
    given["split"] = "test"
    np.testing.assert_array_equal(inputs, draw(Task(arch, num_rules=3), 1, **given)[0][0])  # paired
    equal = np.full(3, 1 / 3)
    [(_, rule, _)] = draw(task, 1, batch_size=2000, rule_probs=equal)
    assert stats.chisquare(np.bincount(rule.ravel())).pvalue > P, "the stream's own frequencies come first"


def test_zipf():
    np.testing.assert_allclose(zipf(3, 0), 1 / 3)
    np.testing.assert_allclose(zipf(4, 1.5), (np.arange(1, 5) ** -1.5) / (np.arange(1, 5) ** -1.5).sum())
    assert zipf(4, -1.5) == zipf(4, 1.5)[::-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"zipf": -1.0}, "zipf=-1.0 is not valid; expected a number from 0 to 4"),
        ({"zipf": float("nan")}, "zipf=nan"),
        ({"zipf": 4.0, "num_rules": 32}, "1 token in 1,134,888; expected at least 1 in 3,200"),
        ({"arch": "corruptions", "zipf": 1.0}, "zipf=1.0 has no meaning for arch='corruptions'"),
    ],
)
def test_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        Task(**options)
