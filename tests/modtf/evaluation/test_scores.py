"""Losses and errors against NumPy; means of scores, and scores as arrays."""

import numpy as np

from modtf.evaluation.elementwise import (
    absolute_error,
    categorical_cross_entropy,
    cross_entropy,
    error_of,
    loss_of,
    misclassified,
    wrong_class,
)
from modtf.evaluation.scores import Scores, from_arrays, mean_scores, to_arrays
from modtf.tasks.families import FAMILIES
from modtf.tasks.settings import SETTINGS


def test_absolute_error():
    np.testing.assert_array_equal(absolute_error(np.array([1.0, -2.0]), np.array([3.0, -2.5])), [2.0, 0.5])


def test_cross_entropy():
    label, logit = np.array([0.0, 1.0, 0.0, 1.0]), np.array([-0.7, 2.0, 3.0, -0.1])
    p = 1 / (1 + np.exp(-logit))
    expected = -(label * np.log(p) + (1 - label) * np.log(1 - p))
    np.testing.assert_allclose(cross_entropy(label, logit), expected, rtol=1e-12)


def test_cross_entropy_of_large_logits_is_finite():
    losses = cross_entropy(np.array([0.0, 1.0, 1.0]), np.array([1e4, 1e4, -1e4]))
    np.testing.assert_allclose(losses, [1e4, 0.0, 1e4])


def test_misclassified():
    label, logit = np.array([0.0, 1.0, 0.0, 1.0, 1.0]), np.array([-1.0, 1.0, 1.0, -1.0, 0.0])
    np.testing.assert_array_equal(misclassified(label, logit), [0, 0, 1, 1, 0])  # y >= 0 is label 1


def test_categorical():
    """Logits of three classes; the labels come as numbers of any kind."""
    logits = np.array([[[2.0, 0.0, -1.0], [0.5, 1.0, 1e4]], [[-3.0, 0.1, 0.2], [1.0, 7.0, 2.0]]])
    label = np.array([[0, 1], [1, 1]])
    shifted = logits - logits.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    expected = -np.take_along_axis(log_p, label[..., None], -1)[..., 0]
    for labels in (label, label.astype(np.float32)):
        np.testing.assert_allclose(categorical_cross_entropy(labels, logits), expected, rtol=1e-12)
        np.testing.assert_array_equal(wrong_class(labels, logits), [[0, 1], [1, 0]])


def test_every_setting_of_a_family_has_a_loss_and_where_it_is_compared_by_it_an_error():
    for setting in {setting for family in FAMILIES.values() for setting in family.settings} | {*SETTINGS}:
        assert callable(loss_of(setting))
        assert (error_of(setting) is None) == (SETTINGS[setting].performance == "loss")


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
    before = [scores(1.0), scores(2.0)]
    after = from_arrays({**to_arrays(before), "steps": np.arange(2)})
    read, written = ([(one.rows, one.activation) for one in some] for some in (after, before))
    np.testing.assert_equal(read, written)
    assert from_arrays(to_arrays([])) == []
