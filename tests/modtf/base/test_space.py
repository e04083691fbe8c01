"""The values to try for a setting, as text."""

import pytest

from modtf.base.space import Range, Values, parse_axis, parse_named


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("0.5,1,2", Values((0.5, 1.0, 2.0))),
        ("1,2,4", Values((1, 2, 4))),
        ("lstm,simple", Values(("lstm", "simple"))),
        ("'1','2'", Values(("1", "2"))),
        ("True,False", Values((True, False))),
        ("false,true", Values((False, True))),
        ("0.5", Values((0.5,))),
        ("1e-5:1e-2:log", Range(1e-5, 1e-2, True)),
        ("-1:1", Range(-1, 1)),
        ("0.5:2", Range(0.5, 2)),
        ("1:8", Range(1, 8)),
    ],
)
def test_what_texts_say(text, axis):
    found = parse_axis(text)
    assert found == axis
    assert parse_axis(str(found)) == axis, "it is written as it is read"
    assert [type(value) for value in found.ends] == [type(value) for value in axis.ends]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no values to try"),
        ("1,simple", "values of one type"),
        ("None,1", "values of one type"),
        ("1,1.0", "holds a value twice"),
        ("2:1", "expected a first number below the second"),
        ("0:1:log", "a logarithmic scale needs numbers above 0"),
        ("1:2:lin", "holds no values to try"),
        ("a:b", "holds no values to try"),
        ("1:1e999", "holds no values to try"),
    ],
)
def test_texts_that_say_nothing(text, words):
    with pytest.raises(ValueError, match=words):
        parse_axis(text)


def test_a_name_in_front():
    assert parse_named("strength=0.1:1") == ("strength", Range(0.1, 1))
    for text in ("strength", "=1", "strength="):
        with pytest.raises(ValueError, match=r"NAME=VALUES|holds no values"):
            parse_named(text)


def test_some_values_of_a_range():
    assert parse_axis("1e-5:1e-2:log").spread(4).values == (1e-5, 1e-4, 1e-3, 1e-2)
    assert parse_axis("0.0:1.0").spread(3).values == (0.0, 0.5, 1.0)
    assert parse_axis("1:4").spread(7).values == (1, 2, 3, 4)
    assert parse_axis("1:16:log").spread(5).values == (1, 2, 4, 8, 16)
    assert parse_axis("1,2,4").spread(2).values == (1, 2, 4)


def test_values_have_as_many_digits_as_matter():
    assert parse_axis("1e-5:1e-2:log").take(0.000123456789) == 0.0001235
    assert parse_axis("0.12344:1.0").take(0.12344) == 0.12344, "but never beyond the bounds"
    assert parse_axis("1:8").take(3.0) == 3


@pytest.mark.parametrize(
    ("text", "edges", "inside"),
    [
        ("0.1,0.01,1.0", [0.01, 1.0], [0.1]),
        ("1e-5:1e-1:log", [1e-5, 1.5e-5, 7e-2, 1e-1], [2e-5, 5e-2]),
        ("0.0:10.0", [0.0, 0.4, 9.6, 10.0], [0.6, 9.4]),
        ("0.5", [], [0.5]),
        ("1,2,4", [], [1, 2, 4]),  # whole numbers often end where they do for a reason
        ("1:9", [], [1, 9]),
        ("lstm,simple", [], ["lstm", "simple"]),
    ],
)
def test_values_at_an_edge(text, edges, inside):
    axis = parse_axis(text)
    assert [value for value in (*edges, *inside) if axis.is_edge(value)] == edges
