"""A trainer's stages, and equal numbers after a kill at any point."""

import json
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from modtf import Cell, Evaluation, Protocol, Task, Training, run_cell
from modtf.base.process import Terminated
from modtf.engines.train_cell import train_cell
from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.scores import stack_scores
from modtf.models.build import build_cell
from modtf.tasks.family import Variant
from modtf.training.trainer import TrainerContext, trainer_of

SMALL = Evaluation(batches=1, batch_size=8, tokens=64, activation_batch_size=8, draws=1, tokens_per_draw=64)
TRAINING = Training(steps=12, batch_size=4, evaluations=2, learning_rate=0.01)


def two_stages(context, warm_up=4, rate=0.1):
    """The decoder alone, by gradient descent on data of its own; then all of the model."""
    frozen = [layer for layer in context.model.layers if layer is not context.model.decoder]

    def ones(first):
        steps = tf.data.Dataset.range(first, 1000)
        shape = [4, len(context.population)]

        def example(step):
            inputs = tf.random.stateless_normal([*shape, 2], [step, 0])
            return {"inputs": inputs, "rule": tf.zeros(shape, tf.int32)}, tf.ones(shape)

        return steps.map(example)

    for layer in frozen:
        layer.trainable = False
    descent = Training(steps=1, optimizer="sgd", learning_rate=rate, evaluations=1)
    context.fit("decoder", context.model, ones, warm_up, training=descent)
    for layer in frozen:
        layer.trainable = True
    context.record("norm", float(np.abs(context.model.decoder.first.kernel.numpy()).sum()))
    context.fit("all", context.model, None, context.training.steps - warm_up)


def never_finite(context):
    """The first task's loss in a stage that is not measured is never finite."""
    losses = [np.nan if task.data_seed == 0 else 1.0 for task in context.population.tasks]
    context.fit("only", context.model, None, 4, measured=False, judge=lambda: np.array(losses))
    context.measure()


@pytest.fixture(scope="module")
def cell():
    family: Any = Task().family
    trainers = {"staged": two_stages, "lost": never_finite}
    made = (Variant(name, router="modular", trainer=trainer) for name, trainer in trainers.items())
    variants, family.variants = family.variants, tuple(made)
    yield Cell(Task(), 4, "staged", ((0, 0), (1, 1)), Protocol(TRAINING, SMALL))
    family.variants = variants


class Kill(keras.callbacks.Callback):
    """Raises before a step, counted over everything that is trained."""

    def __init__(self, step=None):
        super().__init__()
        self.step, self.taken = step, 0

    def on_train_batch_begin(self, batch, logs=None):
        if self.taken == self.step:
            raise Terminated
        self.taken += self.model.steps_per_execution


@pytest.fixture(scope="module")
def run(cell):
    model = build_cell(cell, cell.population)
    initial = [variable.numpy() for variable in model.variables]
    evaluator = Evaluator(model, cell.population, SMALL)

    def run(folder, step=None, cell=cell):
        for variable, value in zip(model.variables, initial, strict=True):
            variable.assign(value)
        how: Any = {"verbose": False, "jit_compile": False, "steps_per_execution": 2}
        context = TrainerContext(cell, cell.population, model, evaluator, folder, [Kill(step)], **how)
        context.trainer(context, **context.options)
        return context, [variable.numpy() for variable in model.variables]

    return run


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return *run(folder), folder


def test_stages_are_measured_and_counted(whole):
    context, _, folder = whole
    assert context.options == {"warm_up": 4, "rate": 0.1}
    assert (context.steps, context.evaluation.steps) == (12, [0, 4, 8, 12])
    assert len(context.evaluation.seconds) == 3
    assert len(context.tail.found) == 1  # of the last stage: half of its two evaluations
    assert context.rows["norm", "iid", ""].shape == (2,)
    assert sorted(path.name for path in folder.iterdir() if "previous" not in path.name) == [
        "checkpoint_all.npz", "checkpoint_decoder.npz",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="The stage 'all' exists already"):
        context.fit("all", context.model, None, 2)
    with pytest.raises(ValueError, match="condition='dark' is not known"):
        context.record("norm", 1.0, "dark")
    for name in ("loss", "diverged"):
        with pytest.raises(ValueError, match=f"'{name}' cannot be the name of a recorded row"):
            context.record(name, 1.0)


@pytest.mark.slow
def test_killed_between_and_inside_stages_it_ends_the_same(run, whole, cell, tmp_path):
    context, expected, _ = whole
    for step in (2, 0, 6):  # inside the first stage; at its end; inside the second
        with pytest.raises(Terminated):
            run(tmp_path / "killed", step)
    with pytest.raises(ValueError, match=r"learning_rate is 0.1 there and 0.2 here; trainer is None"):
        run(tmp_path / "killed", cell=replace(cell, trainer={"rate": 0.2}))
    again, found = run(tmp_path / "killed")
    np.testing.assert_equal(found, expected)
    assert again.evaluation.steps == context.evaluation.steps
    found = (stack_scores(one.evaluation.found).rows for one in (again, context))
    np.testing.assert_equal(*found)
    np.testing.assert_equal(again.rows, context.rows)
    np.testing.assert_equal(again.tail.scores().rows, context.tail.scores().rows)


@pytest.mark.slow
def test_a_cell_of_stages(cell, tmp_path):
    """Compiled, with members in turn, some of whose layers are frozen."""
    folder = run_cell(replace(cell, trainer={"warm_up": 6}), tmp_path, verbose=False)
    frame = pd.read_csv(folder / "results.csv")
    assert set(frame["steps"]) == {12}
    assert (frame["measure"] == "norm").sum() == 3 * 2  # of every checkpoint and member
    assert sorted(set(pd.read_csv(folder / "history.csv")["step"])) == [0, 6, 9, 12]
    assert json.loads((folder / "config.json").read_text())["trainer"] == {"warm_up": 6}
    assert not list(folder.glob("checkpoint*"))


def test_a_member_that_ends_a_stage_with_its_initial_weights_is_marked(cell, tmp_path):
    """Like one whose weights are not finite: it has no results, and diverged."""
    lost = replace(cell, variant="lost")
    train_cell(lost, build_cell(lost, lost.population), tmp_path, verbose=False, jit_compile=False)
    frame, history = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("results", "history"))
    losses = frame[frame["measure"] == "loss"].groupby(["checkpoint", "data_seed"])["value"].count().unstack()
    assert list(losses.index) == ["best", "last", "tail"]
    assert not losses[0].any()
    assert losses[1].all()
    diverged = history[history["measure"] == "diverged"]
    assert diverged[["step", "data_seed"]].to_numpy().tolist() == [[4, 0]]
    errors = history[history["measure"] == "loss"].groupby("data_seed")["value"].count()
    assert errors[0] == 0 < errors[1]


def test_options_are_checked(cell):
    with pytest.raises(
        ValueError, match=r"cool=1 is not an option of the trainer of 'staged'; .* warm_up, rate"
    ):
        trainer_of(replace(cell, trainer={"cool": 1}))
    with pytest.raises(
        ValueError, match=r"warm_up=2 is not an option of the trainer of 'modular'; .* start, start_steps"
    ):
        trainer_of(replace(cell, variant="modular", trainer={"warm_up": 2}))


@pytest.mark.parametrize("at", [2, 8])
def test_a_training_that_a_callback_ends_gives_no_results(at, cell, tmp_path):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = int(self.model.optimizer.iterations) >= at

    protocol = Protocol(replace(TRAINING, evaluations=4), SMALL)
    cell = replace(cell, variant="modular", members=((0, 0),), protocol=protocol)
    with pytest.raises(ValueError, match=r"The training ended after \d+ of 12 steps, because a callback"):
        run_cell(cell, tmp_path, verbose=False, callbacks=[Stop()])
    assert not (tmp_path / cell.folder / "manifest.json").exists()
