"""Random numbers are TensorFlow's, at any place of a stream; the edges of what is made of them."""

import numpy as np
import pytest
import tensorflow as tf

from modtf.datasets import device_ops, host_ops, philox
from modtf.datasets.random import choose_rule, standard_normal, unit_vector

KEYS, INDEX, PLACES = (-(2**63) + 5, 3), (0, 70_000), (0, 3)


@pytest.mark.parametrize("ops", [device_ops, host_ops])
@pytest.mark.parametrize(("count", "dtype"), [(8, "float32"), (7, "float32"), (3, "float64")])
def test_the_numbers_are_those_of_tensorflow(ops, count, dtype):
    @tf.function(jit_compile=ops is device_ops, autograph=False)
    def draw(index, start):
        keys = np.array([philox.words(key) for key in KEYS])
        scrambled = philox.scramble(device_ops, keys[:, None], index)
        return philox.uniforms(device_ops, scrambled, start, count, dtype)

    found = draw(tf.constant(INDEX), tf.constant([place * count for place in PLACES])).numpy()
    for k, key in enumerate(KEYS):
        for i, (index, place) in enumerate(zip(INDEX, PLACES, strict=True)):
            seed = tf.constant(key, tf.int64), tf.constant(index, tf.int64)
            numbers = host_ops.uniforms(*seed, [4, count], tf.as_dtype(dtype)).numpy()
            np.testing.assert_array_equal(found[k, i], numbers[place])


def test_the_published_vectors():
    """The vectors of the generator's authors: ten rounds on zeros, on ones, and on digits of pi."""
    known = {
        (0,) * 6: "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
        (0xFFFFFFFF,) * 6: "408f276d 41c83b0e a20bc7c6 6d5451fd",
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0):
            "d16cfe09 94fdcceb 5001e420 24126ea1",
    }  # fmt: skip
    for words, expected in known.items():
        tensors = [tf.constant(np.uint32(word)) for word in words]
        found = tf.function(philox.philox, jit_compile=True)(device_ops, tensors[:4], tensors[4:])
        assert " ".join(f"{int(word):08x}" for word in found) == expected


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
