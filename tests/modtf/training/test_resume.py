"""Training that is interrupted anywhere, in the middle of an epoch too, ends with the same numbers."""

import keras
import numpy as np
import pytest

from modtf.evaluation.evaluator import Evaluator
from modtf.models.build import build
from modtf.population import Population
from modtf.task import Task
from modtf.termination import Terminated
from modtf.training import archive
from modtf.training.callbacks.evaluate import BestWeights, EvaluateCallback
from modtf.training.train import train

POPULATION = Population.of([Task(), Task(data_seed=1)], [0, 1])
STEPS, PER_EPOCH = 16, 8


class Interrupted(EvaluateCallback):
    """Raises where this step is to be evaluated."""

    def __init__(self, evaluator, step=None):
        super().__init__(evaluator)
        self.step = step

    def _measure(self, step):
        if step == self.step:
            self.records["half"] = [np.zeros(2)]  # it has begun
            raise Terminated
        super()._measure(step)


class Interrupting(keras.callbacks.Callback):
    """Raises after so many steps, before the next are taken."""

    def __init__(self, steps=None):
        super().__init__()
        self.steps = steps

    def on_train_batch_begin(self, batch, logs=None):
        if int(self.model.optimizer.iterations.numpy()) == self.steps:
            raise Terminated


@pytest.fixture(scope="module")
def model():
    return build(POPULATION, "modular", 4)


@pytest.fixture(scope="module")
def run(model, small_sizes):
    """run(path, where it is interrupted) -> all that training gives."""
    initial = [variable.numpy() for variable in model.variables]
    evaluator = Evaluator(model, POPULATION, small_sizes.smaller(1), "validation")

    def run(path, before=None, evaluating=None):
        for variable, value in zip(model.variables, initial, strict=True):
            variable.assign(value)
        evaluation = Interrupted(evaluator, evaluating)
        best = BestWeights(evaluation)
        history = train(
            model, POPULATION, STEPS, batch_size=4, learning_rate=0.01, evaluations=2,
            steps_per_execution=2, jit_compile=False, evaluation=evaluation, checkpoint=path,
            callbacks=[best, Interrupting(before)], verbose=False,
        )  # fmt: skip
        variables = [*model.variables, *model.optimizer.variables]
        return [v.numpy() for v in variables], best.weights, evaluation.records, history.history["loss"][-1]

    return run


def same(found, expected):
    for one, other in zip(found[:2], expected[:2], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert {name: np.stack(v).tolist() for name, v in found[2].items()} == {
        name: np.stack(v).tolist() for name, v in expected[2].items()
    }
    assert found[3] == expected[3]


def begun(path):
    arrays = archive.load(path)
    assert arrays is not None
    return int(arrays["epoch"]), int(arrays["begun"])


def test_an_interruption_loses_nothing(run, tmp_path, capsys):
    expected = run(None)
    path = tmp_path / "checkpoint.npz"
    steps = []
    for where in ({"before": 6}, {"evaluating": 8}, {"before": 12}):
        with pytest.raises(Terminated):
            run(path, **where)
        steps.append(begun(path))
    assert steps == [(0, 6), (0, 8), (1, 4)]
    same(run(path), expected)
    assert capsys.readouterr().out == ""
