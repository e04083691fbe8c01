"""Checks of single values."""

import numpy as np
import pytest

from modtf.checks import check_choice, check_integer, check_number


def test_a_choice():
    check_choice("x", 1, (1, 2))
    check_choice("x", "a", {"a": 1})
    with pytest.raises(ValueError, match="x=3 is not known; expected one of 1, 2"):
        check_choice("x", 3, (1, 2))


def test_an_integer():
    assert type(check_integer("n", np.int16(5), 5)) is int
    for value in (4, 5.0, True, "5", None):
        with pytest.raises(ValueError, match=r"n=.* at least 5"):
            check_integer("n", value, 5)


def test_a_number():
    assert type(check_number("x", np.float32(0.5), 0.0, 1.0)) is float
    assert check_number("x", 1, 0.0, 1.0) == 1.0
    for value in (-0.1, 1.1, float("nan"), True, "0.5", None):
        with pytest.raises(ValueError, match=r"x=.*expected a number from 0 to 1"):
            check_number("x", value, 0.0, 1.0)
