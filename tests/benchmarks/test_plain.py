"""The plain form of digits' networks: the layers of one library of Keras's own, trained side by side."""

import numpy as np
import pytest
from plain_layers import plain

import modtf
from modtf.experiments.questions.question import QUESTIONS

WIDTH = 4


@pytest.mark.parametrize("question", QUESTIONS)
def test_as_many_numbers_as_one_module_for_all(question: str) -> None:
    model = modtf.build(modtf.Task("vqa_mnist", question=question), "all_all_all", WIDTH)
    made = plain(model, 256)
    assert made is not None
    asked = QUESTIONS[question]
    features = {"inputs": np.zeros([2, *asked.shape], "float32"), "rule": np.zeros([2, asked.num_calls], int)}
    assert made[0](features).shape == (2, 2)
    count = sum(np.prod(v.shape) for v in made[0].trainable_variables)
    half = WIDTH * WIDTH  # of the projection: a single call needs none of it, a tree's leaves have their own
    assert count == model.num_parameters + (half + WIDTH if asked.roots else -half)


def test_it_learns() -> None:
    made = plain(
        modtf.build(modtf.Task("vqa_mnist", question="attribute", examples=2520), "all_all_all", WIDTH), 256
    )
    assert made is not None
    network, data = made
    network.fit(data.take(1), verbose=0, shuffle=False)
    before = np.array(network.last.kernel)
    network.fit(data.take(1), verbose=0, shuffle=False)
    assert not np.array_equal(before, network.last.kernel)


def test_others_have_none() -> None:
    assert plain(modtf.build(modtf.Task("mlp"), "modular", WIDTH), 256) is None
