"""The plain form of digits' networks: the layers of one library of Keras's own, trained side by side."""

import numpy as np

import modtf
from modtf.launch.benchmark.plain import plain_of
from modtf.launch.benchmark.tensorflow_programs import keras_steps
from modtf.launch.benchmark.timing import CLOCKS, run_of


def test_as_many_numbers_as_one_module_for_all() -> None:
    task = modtf.Task("vqa_mnist", question="attribute", examples=2520)
    model = modtf.build(task, "all_all_all", 4)
    plain = plain_of(model)
    assert plain is not None
    data = modtf.stream(task, 21)
    features, _ = next(iter(data))
    assert plain(features)["target"].shape == (21, 2)
    count = sum(np.prod(v.shape) for v in plain.trainable_variables)
    assert count == model.num_parameters - 4 * 4  # a single call needs no first half of the projection
    before = np.array(plain.last.kernel)
    run = run_of(CLOCKS["cpu"], keras_steps(plain, data.map(lambda x, y: (x, {"target": y}))))
    assert run(2) > 0
    assert not np.array_equal(before, plain.last.kernel)


def test_others_have_none() -> None:
    assert plain_of(modtf.build(modtf.Task("mlp"), "modular", 4)) is None
    assert plain_of(modtf.build(modtf.Task("vqa_mnist", question="comparison"), "all_all_all", 4)) is None
