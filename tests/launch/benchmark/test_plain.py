"""The plain form of digits' networks: the layers of one library of Keras's own, trained side by side."""

import numpy as np
from plain_layers import plain

import modtf


def test_as_many_numbers_as_one_module_for_all() -> None:
    task = modtf.Task("vqa_mnist", question="attribute", examples=2520)
    model = modtf.build(task, "all_all_all", 4)
    network, data = plain(model)
    features, _ = next(iter(data))
    assert network(features).shape == (len(features["rule"]), 2)
    count = sum(np.prod(v.shape) for v in network.trainable_variables)
    assert count == model.num_parameters - 4 * 4  # a single call needs no first half of the projection
    before = np.array(network.last.kernel)
    network.fit(data.take(1), verbose=0, shuffle=False)
    assert not np.array_equal(before, network.last.kernel)


def test_others_have_none() -> None:
    assert plain(modtf.build(modtf.Task("mlp"), "modular", 4)) is None
    assert plain(modtf.build(modtf.Task("vqa_mnist", question="comparison"), "all_all_all", 4)) is None
