"""The textbook implementation: the same parameters and labels as modtf's own."""

import time

import keras
import numpy as np
import pytest
from steps import fit_run
from textbook_form import MIXTURES, has_textbook, textbook_dataset, textbook_labels, textbook_model

from modtf import Task, build, stream
from modtf.tasks.families import with_free_rules


@pytest.mark.parametrize("variant", list(MIXTURES))
@pytest.mark.parametrize("arch", with_free_rules())
def test_same_number_of_parameters(arch: str, variant: str) -> None:
    task = Task(arch, num_rules=3)
    textbook, own = textbook_model(task, variant, 8), build(task, variant, 8)
    assert sum(np.prod(v.shape) for v in textbook.trainable_variables) == own.num_parameters


@pytest.mark.parametrize("arch", with_free_rules())
def test_same_labels_and_shapes(arch: str) -> None:
    task = Task(arch, num_rules=3)
    features, target = next(iter(stream(task, 16)))
    labels = textbook_labels(task, features["inputs"].numpy().astype(np.float64), features["rule"].numpy())
    np.testing.assert_allclose(labels, target, atol=1e-4)
    ours, theirs = stream(task, 16).element_spec, textbook_dataset(task, 16).element_spec
    assert ours == theirs


@pytest.mark.parametrize("arch", ["mlp", pytest.param("rnn", marks=pytest.mark.slow)])
def test_it_trains(arch: str) -> None:
    keras.utils.set_random_seed(0)
    task = Task(arch, num_rules=2)
    model = textbook_model(task, "modular", 8)
    before = [np.array(v) for v in model.trainable_variables]
    assert fit_run(model, textbook_dataset(task, 16), time.process_time)(2) > 0
    for old, new in zip(before, model.trainable_variables, strict=True):
        assert np.all(np.isfinite(new))
        assert not np.array_equal(old, new)


def test_what_has_no_textbook_is_not_taken_for_something_else() -> None:
    assert has_textbook(Task(), "modular")
    assert not has_textbook(Task(), "gt")
