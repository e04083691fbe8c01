"""The edges of what is made of uniform numbers."""

import numpy as np
import pytest
import tensorflow as tf

from modtf.datasets import host_ops
from modtf.datasets.host_ops import uniforms
from modtf.datasets.random import choose_rule, standard_normal, unit_vector


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges_of_the_unit_interval(dtype):
    last = np.nextafter(dtype(1), dtype(0))
    edges = np.array([0.0, 0.5, last, last], dtype)
    assert np.isfinite(standard_normal(host_ops, edges)).all()
    for num_rules in (2, 3, 7, 32):
        rule = choose_rule(host_ops, edges, num_rules, None).numpy()
        assert rule[0] == 0
        assert rule[-1] == num_rules - 1
    assert choose_rule(host_ops, edges, 3, np.array([0.0, 0.5])).numpy().tolist() == [1, 2, 2, 2]
    cosine, sine = unit_vector(host_ops, edges)
    np.testing.assert_allclose(np.square(cosine) + np.square(sine), 1.0, atol=1e-6)


def test_uniforms_are_a_function_of_key_and_step():
    def draw(key, step):
        return uniforms(tf.constant(key, tf.int64), tf.constant(step, tf.int64), [5]).numpy()

    np.testing.assert_array_equal(draw(-3, 2), draw(-3, 2))
    assert len(np.unique(np.concatenate([draw(k, s) for k in (-3, 3) for s in (0, 1)]))) == 20
