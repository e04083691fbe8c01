"""The edges of what is made of uniform numbers."""

import numpy as np
import pytest

from modtf.datasets import host_ops
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
