"""Routing files of trained models, read back by the other half of modtf."""

from typing import Any

import numpy as np
import pytest

import modtf
from modtf.evaluation.routing_file import _integers, write_routing
from modtf.tasks.population import Population

TASK = modtf.Task("languages", data_seed=3)


def test_the_file_holds_the_models_own_choices_languages_and_words(tmp_path):
    model = modtf.build(TASK, "balanced", width=8, router={"k": 2})
    path = write_routing(model, TASK, tmp_path / "routing.npz", examples=3)
    features, _ = next(iter(modtf.stream(TASK, 64, "test")))
    p = model(features)["activation_layer2"].numpy()[:3].reshape(-1, 8)
    with np.load(path) as arrays:
        assert arrays["experts"].shape == (2, 3 * 63, 2)
        np.testing.assert_array_equal(arrays["experts"][1, :, 0], p.argmax(axis=1))
        np.testing.assert_allclose(arrays["weights"][1].sum(axis=1), 1, atol=2e-3)
        np.testing.assert_array_equal(arrays["labels"].reshape(3, 63), features["rule"][:3])
    routing: Any = modtf.read_routing(path)
    assert routing.names.labels[0].startswith("language")
    assert list(routing.names.layers) == ["layer1", "layer2"]
    words = [routing.words[word] for word in routing.factors["token"][:2]]
    assert words == [
        (TASK.family.token_names(TASK) or ())[word] for word in features["inputs"][0, :2].numpy()
    ]
    assert np.unique(routing.documents, return_counts=True)[1].tolist() == [63] * 3


def test_weighted_routing_of_independent_tokens_is_written_whole(tmp_path):
    task = modtf.Task("mlp", num_rules=4)
    path = write_routing(modtf.build(task, "modular", width=8), task, tmp_path / "x.npz", examples=100)
    with np.load(path) as arrays:
        assert arrays["activations"].shape == (1, 100, 4)
        assert "documents" not in arrays


def test_a_members_routing_is_that_of_its_own_task(tmp_path):
    tasks = [modtf.Task("mlp", num_rules=4, data_seed=seed) for seed in (0, 1)]
    both = modtf.build(tasks, "modular", width=8, seed=[0, 1])
    own = modtf.build(tasks[1], "modular", width=8, seed=1)
    first = write_routing(both, tasks, tmp_path / "both.npz", member=1)
    second = write_routing(own, Population.of(tasks[1], 1), tmp_path / "own.npz")
    with np.load(first) as ours, np.load(second) as theirs:
        np.testing.assert_array_equal(ours["labels"], theirs["labels"])
        np.testing.assert_allclose(ours["activations"], theirs["activations"], atol=1e-3)


@pytest.mark.parametrize(
    ("variant", "member", "message"), [("modular", 1, "has 1, numbered"), ("monolithic", 0, "routes nothing")]
)
def test_models_without_such_routing_are_refused(variant, member, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        write_routing(modtf.build(TASK, variant, width=8), TASK, tmp_path / "x.npz", member=member)


def test_large_vocabularies_are_written_as_they_are():
    words = np.array([[40_000, 69_999]])
    assert _integers(words, 70_000).tolist() == [40_000, 69_999]
    assert _integers(words // 1000, 70).dtype == np.int16


def test_what_cannot_be_measured_is_not_written(tmp_path):
    task = modtf.Task("corruptions")
    model = modtf.build(task, "routed", width=4)
    with pytest.raises(ValueError, match="Under condition='gb_sw' tokens have several rules"):
        write_routing(model, task, tmp_path / "x.npz", examples=4, condition="gb_sw")
    model.set_weights([np.full_like(weight, np.nan) for weight in model.get_weights()])
    with pytest.raises(ValueError, match="diverged"):
        write_routing(model, task, tmp_path / "x.npz", examples=4)
    assert not list(tmp_path.iterdir())


def test_a_models_own_training_data_are_those_of_its_seed(tmp_path):
    task = modtf.Task("mlp", num_rules=4, num_train=64)
    model = modtf.build(task, "modular", width=8, seed=3)
    path = write_routing(model, task, tmp_path / "x.npz", condition="train_data", examples=64)
    own, _ = next(iter(modtf.stream(task, 64, "test", seed=3, condition="train_data")))
    other, _ = next(iter(modtf.stream(task, 64, "test", seed=0, condition="train_data")))
    with np.load(path) as arrays:
        np.testing.assert_array_equal(arrays["labels"], own["rule"])
        assert not np.array_equal(arrays["labels"], other["rule"])
