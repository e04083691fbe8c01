"""Means of scores, and scores as arrays."""

import numpy as np

from modtf.evaluation.scores import Scores, from_arrays, mean_scores, to_arrays


def scores(number: float) -> Scores:
    rows = {
        ("loss", "iid", ""): np.array([number, 1.0]),
        ("loss", "scale2", ""): np.array([-number, np.nan]),
        ("alignment", "iid", "root"): np.zeros(2),
    }
    return Scores(rows, {"": np.full((2, 3, 4), number), "root": np.full((2, 1, 2), 0.5)})


def test_means():
    mean = mean_scores([scores(1.0), scores(2.0)])
    assert mean.rows["loss", "iid", ""].tolist() == [1.5, 1.0]
    np.testing.assert_array_equal(mean.rows["loss", "scale2", ""], [-1.5, np.nan])
    assert (mean.activation[""] == 1.5).all()
    assert mean.activation["root"].shape == (2, 1, 2)


def test_names():
    assert scores(2.0).member(0) == {"loss": 2.0, "loss_scale2": -2.0, "alignment_root": 0.0}


def test_arrays_are_the_scores_again():
    found = [scores(1.0), scores(2.0)]
    again = from_arrays({**to_arrays(found), "steps": np.arange(2)})
    ours, theirs = ([(one.rows, one.activation) for one in some] for some in (again, found))
    np.testing.assert_equal(ours, theirs)
    assert from_arrays(to_arrays([])) == []
