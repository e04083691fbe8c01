"""Means of scores, and scores as arrays."""

import numpy as np

from modtf.evaluation.scores import Scores, from_arrays, mean_scores, to_arrays
from modtf.families import FAMILIES

FAMILY = FAMILIES["mlp"]


def scores(number: float) -> Scores:
    rows = {("loss", "iid"): np.array([number, 1.0]), ("loss", "scale2"): np.array([-number, np.nan])}
    return Scores(rows, np.full((2, 3, 4), number), FAMILY)


def test_means():
    mean = mean_scores([scores(1.0), scores(2.0)])
    assert mean.rows["loss", "iid"].tolist() == [1.5, 1.0]
    np.testing.assert_array_equal(mean.rows["loss", "scale2"], [-1.5, np.nan])
    assert (mean.activation == 1.5).all()


def test_names():
    assert scores(2.0).member(0) == {"loss": 2.0, "loss_scale2": -2.0}
    assert list(scores(2.0).in_distribution()) == ["loss"]


def test_arrays_are_the_scores_again():
    found = [scores(1.0), scores(2.0)]
    again = from_arrays(to_arrays(found), FAMILY)
    assert len(again) == 2
    for ours, theirs in zip(again, found, strict=True):
        assert ours.rows.keys() == theirs.rows.keys()
        for key, values in ours.rows.items():
            np.testing.assert_array_equal(values, theirs.rows[key])
        np.testing.assert_array_equal(ours.activation, theirs.activation)
    assert from_arrays(to_arrays([]), FAMILY) == []
