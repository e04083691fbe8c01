"""benchmarks/bench.py: the requests of its flags, and costs; tests/test_without_tensorflow.py runs it."""

import time

import bench
import keras
import numpy as np
import pytest
from flag_values import given
from plain_layers import plain
from steps import fit_run
from textbook_form import MIXTURES, has_textbook, textbook_dataset, textbook_labels, textbook_model

import modtf
from modtf import Task, build, stream
from modtf.experiments.questions.question import QUESTIONS
from modtf.tasks.families import with_free_rules
from modtf.tasks.protocol import KERNELS, PRECISIONS


def test_the_table_of_a_device():
    found = [
        bench.rows_of(one)[0] for one in bench.requests_of(given(bench, "--device=gpu", "--backend=jax"))
    ]
    assert len({bench.key_of(row) for row in found}) == len(found) == 84
    assert {row["variant"] for row in found} == {"modular"}
    names = {
        "arch": with_free_rules(),
        "precision": PRECISIONS,
        "kernels": KERNELS,
        "members": (1, 5, 25, 100),
    }
    for name, values in names.items():
        assert {row[name] for row in found} == set(values)
    assert {row["kernels"] for row in found[:40]} == {"accelerator"}


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--rules=two"], "positive integers"),
        (["--members=1,2"], "Give --device"),
        (["--set=training.steps=2"], "published protocol"),
        (["--device=cpu", "--data=auto"], "expected some of host, device"),
        (["--device=cpu", "--precision=half"], "expected some of float32"),
        (["--arch=mpl"], "mlp"),
    ],
)
def test_wrong_values(flags, error):
    with pytest.raises(ValueError, match=error):
        bench.requests_of(given(bench, *flags))


def test_costs_are_medians_and_ratios_of_a_round():
    samples = {"monolithic step": [1.0, 2.0, 3.0], "modular step": [2.0, 4.0, 9.0], "data": [0.4] * 3,
               "peak": [1.0] * 3, "compiled peak": [0.5] * 3, "modular alone": [1.0, 2.0, 4.5]}  # fmt: skip
    row = {"variant": "modular", "members": 2, "data": "memory", "flops": 100, "published_steps": 1000}
    core = bench.costs_of(row, samples, product_flops=50)
    assert (core["step_ms"], core["data_ms"], core["train_ms"]) == (2000.0, 200.0, 2200.0)  # of a member
    assert (core["to_monolithic"], core["to_alone"], core["peak_fraction"]) == (2.0, 1.0, 0.5)
    card = bench.costs_of({**row, "data": "device"}, samples, product_flops=50)
    assert (card["step_ms"], card["step_ms_range"]) == (4000.0, [2000.0, 9000.0])  # of all
    assert card["models_per_hour"] == pytest.approx(3600 * 2 / 4000)


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
