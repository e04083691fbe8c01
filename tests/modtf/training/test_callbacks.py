"""The callbacks alone: results, best weights per member, the tail, the progress bar."""

import sys

import keras
import numpy as np
import pytest

from modtf import Population, Task, build
from modtf.evaluation.scores import stack_scores
from modtf.training.callbacks.evaluate import BestWeights, EvaluateCallback, TailCallback
from modtf.training.fit import ProgressCallback

TWO = Population.of([Task(), Task()], [0, 1])
LOSSES = [[0.0, 0.0], [3.0, 1.0], [2.0, 2.0], [np.nan, 0.5], [2.0, 9.0]]  # the first before training


def assign_all(model, value):
    for variable in model.trainable_variables:
        variable.assign(np.full(variable.shape, value))


def test_what_was_found(prescribed, run_epochs):
    evaluator = prescribed(TWO, {"loss": LOSSES, "even": LOSSES, ("loss", "scale2"): LOSSES})
    callback = EvaluateCallback(evaluator)
    logs = run_epochs(None, [callback], range(2))
    assert callback.steps == [0, 5, 10]
    names = ("loss", "even", "loss_scale2")
    found = {name: values.tolist() for name, values in stack_scores(callback.found).named().items()}
    assert found == dict.fromkeys(names, LOSSES[:3])
    assert len(callback.found) == 3
    assert len(callback.seconds) == 2
    assert logs == {"loss": 0.5, "val_loss": 2.0, "even": 2.0}


def test_a_resumed_training_is_not_measured_before_it_and_one_after_another_counts_on(prescribed, run_epochs):
    first, second = (EvaluateCallback(prescribed(TWO, {"loss": LOSSES})) for _ in range(2))
    first.begin = 100
    run_epochs(None, [first], range(2))
    second.load_state({name: value.copy() for name, value in first.state().items()})
    run_epochs(None, [second], [2])
    assert second.steps == [100, 105, 110, 15]
    assert stack_scores(second.found).named()["loss"].tolist() == [*LOSSES[:3], LOSSES[0]]


@pytest.mark.parametrize("measure", ["loss", "error"])
def test_best_weights_are_each_members_own(measure, prescribed, run_epochs):
    """By the loss in regression, by the error in classification."""
    setting = {"loss": "regression", "error": "classification"}[measure]
    population = Population.of([Task(setting=setting)] * 2, [0, 1])
    rising = [[float(i)] * 2 for i in range(5)]
    series = {"loss": rising, "error": rising, measure: LOSSES}
    model = build(population, "modular", 2)
    evaluation = EvaluateCallback(prescribed(population, series))
    best = BestWeights(evaluation)
    for epoch in range(4):
        assign_all(model, epoch)
        run_epochs(model, [evaluation, best], [epoch], total=4)
    assert best.value.tolist() == [2.0, 0.5]
    assert best.step.tolist() == [10, 15]
    for values in best.weights:
        assert np.all(values[0] == 1)
        assert np.all(values[1] == 2)


def test_a_weight_that_is_one_number_is_kept_too(prescribed, run_epochs):
    """A model of a user's may have one; those of modtf have an axis of members."""
    evaluation = EvaluateCallback(prescribed(Population.of(Task()), {"loss": [[0.0], [2.0], [1.0], [3.0]]}))
    model, best = keras.Model(), BestWeights(evaluation)
    scale = model.add_weight(shape=(), name="scale")
    for epoch in range(3):
        scale.assign(epoch)
        run_epochs(model, [evaluation, best], [epoch], total=3)
    best.restore()
    assert float(scale.numpy()) == 1.0


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize(("total", "length"), [(1, 1), (7, 3), (100, 10)])
def test_the_tail_is_the_mean_over_the_last_evaluations(total, length, anew, prescribed, run_epochs):
    series = {("loss", condition): [[float(i), 1.0] for i in range(total)] for condition in ("iid", "scale2")}
    tail = TailCallback(prescribed(TWO, series), length, anew)
    run_epochs(None, [tail], range(total))
    assert vars(tail.evaluator)["shares"] == [(i, length) if anew else (0, 1) for i in range(length)]
    expected = [np.mean(range(length)), 1.0]  # the evaluator counts from its first use
    for condition in ("iid", "scale2"):
        assert tail.scores().rows["loss", condition, ""].tolist() == expected


def test_a_tail_that_resumes_reads_what_was_not_read(prescribed, run_epochs):
    first, second = (TailCallback(prescribed(TWO, {"loss": LOSSES}), 3, True) for _ in range(2))
    run_epochs(None, [first], range(9), total=10)
    second.load_state({name: value.copy() for name, value in first.state().items()})
    run_epochs(None, [second], [9], total=10)
    assert vars(second.evaluator)["shares"] == [(2, 3)]


def test_between_its_evaluations_nothing_is_measured_or_judged(prescribed, run_epochs):
    model = build(TWO, "modular", 2)
    evaluation = EvaluateCallback(prescribed(TWO, {"loss": LOSSES}))
    evaluation.every, best = 2, BestWeights(evaluation)
    run_epochs(model, [evaluation, best], range(5), total=6)
    assert evaluation.steps == [0, 10, 20]
    assert len(evaluation.seconds) == 5
    assert best.step.tolist() == [20, 10]


def test_progress_counts_every_step(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    progress = ProgressCallback(total=20, done=10, label="cell")
    progress.on_train_begin()
    for epoch in range(2):
        progress.on_epoch_begin(epoch)
        for last in (1, 4):  # the last of several steps per execution
            progress.on_train_batch_end(last, {"loss": 0.5})
        progress.on_epoch_end(epoch, {"val_loss": 0.25})
    assert progress._bar.n == 20
    progress.on_train_end()
    shown = capsys.readouterr().err
    assert "cell" in shown
    assert "20/20" in shown
