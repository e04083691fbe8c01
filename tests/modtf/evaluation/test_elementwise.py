"""Losses and errors against NumPy."""

import numpy as np

from modtf.evaluation.elementwise import ELEMENTWISE, absolute_error, cross_entropy, misclassified
from modtf.families import FAMILIES


def test_absolute_error():
    np.testing.assert_array_equal(absolute_error(np.array([1.0, -2.0]), np.array([3.0, -2.5])), [2.0, 0.5])


def test_cross_entropy():
    label, logit = np.array([0.0, 1.0, 0.0, 1.0]), np.array([-0.7, 2.0, 3.0, -0.1])
    p = 1 / (1 + np.exp(-logit))
    expected = -(label * np.log(p) + (1 - label) * np.log(1 - p))
    np.testing.assert_allclose(cross_entropy(label, logit), expected, rtol=1e-12)


def test_cross_entropy_of_large_logits_is_finite():
    found = cross_entropy(np.array([0.0, 1.0, 1.0]), np.array([1e4, 1e4, -1e4]))
    np.testing.assert_allclose(found, [1e4, 0.0, 1e4])


def test_misclassified():
    label, logit = np.array([0.0, 1.0, 0.0, 1.0, 1.0]), np.array([-1.0, 1.0, 1.0, -1.0, 0.0])
    np.testing.assert_array_equal(misclassified(label, logit), [0, 0, 1, 1, 0])  # y >= 0 is label 1


def test_every_setting_has_a_loss():
    assert set(ELEMENTWISE) == {setting for family in FAMILIES.values() for setting in family.settings}
