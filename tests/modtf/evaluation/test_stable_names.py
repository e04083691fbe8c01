"""A traced function is named after its model, so that another process finds its program."""

import keras
import pytest
import tensorflow as tf

from modtf.evaluation.stable_names import stable_names
from modtf.persistent_cache import FLAG, VARIABLE


@pytest.fixture(autouse=True)
def _cache_is_used(monkeypatch):
    monkeypatch.setenv(VARIABLE, f"{FLAG}=/nowhere")


def a_model(width):
    model = keras.Sequential([keras.layers.Dense(width)])
    model.build([None, 3])
    return model


def a_name(function="square"):
    """Of a function that is traced now, with a loop in it."""

    def traced(x):
        return tf.while_loop(lambda x: tf.reduce_sum(x) < 5.0, lambda x: (x * x,), [x])

    traced.__name__ = function
    concrete = tf.function(traced, autograph=False).get_concrete_function(tf.ones([2]))
    inner = next(op for op in concrete.graph.get_operations() if op.type == "StatelessWhile")
    return concrete.name.decode(), inner.get_attr("body").name


def numbers_taken_by_tensorflow(count):
    for _ in range(count):
        a_name()


def test_names_do_not_depend_on_what_was_traced_before():
    model, name = a_model(41), None
    with stable_names(model):
        name = a_name()
    numbers_taken_by_tensorflow(3)
    with stable_names(a_model(42)):
        assert a_name()[0] != name[0]
        a_name("other")
    with stable_names(model):
        again = a_name()
    assert [word.removesuffix("1") + "2" for word in name] == list(again)
    assert "square" in name[0]


def test_two_models_that_look_the_same_share_no_name():
    found = []
    for _ in range(2):
        with stable_names(a_model(43)):
            found += a_name()
    assert len(set(found)) == 4


def test_within_another_models_the_names_are_those_of_the_inner_one():
    outer, inner = a_model(44), a_model(45)
    with stable_names(inner):
        expected = a_name()[0]
    with stable_names(outer):
        with stable_names(inner):
            assert a_name()[0] == expected.removesuffix("1") + "2"
        assert expected.split("_")[-3] not in a_name()[0]


def test_without_a_cache_and_afterwards_names_are_tensorflows(monkeypatch):
    model = a_model(46)
    with stable_names(model):
        prefix = a_name()[0].rpartition("_")[0]
    assert not a_name()[0].startswith(prefix)
    monkeypatch.setenv(VARIABLE, "")
    with stable_names(model):
        assert not a_name()[0].startswith(prefix)
