"""A checkpoint holds everything, is whole or absent, and is refused by another training; what is interrupted
anywhere, in the middle of an epoch too, ends with the same numbers."""

import keras
import numpy as np
import pytest

from modtf import Population, Task, build, train
from modtf.base.process import Terminated
from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.scores import stack_scores
from modtf.training import checkpoint_file
from modtf.training.callbacks import checkpoint
from modtf.training.callbacks.checkpoint import CheckpointCallback
from modtf.training.callbacks.evaluate import BestWeights, EvaluateCallback


def compiled(task):
    model = build(task, "modular", 2)
    model.compile("adam")
    return model


class Counter(keras.callbacks.Callback):
    """Something that must survive a kill."""

    def __init__(self, count=0):
        super().__init__()
        self.count = count

    def state(self):
        return {"count": np.array(self.count)}

    def load_state(self, state):
        self.count = int(state["count"])


@pytest.fixture
def written(tmp_path):
    """The checkpoint of a model after one step and three epochs, with a counter."""
    model, path = compiled(Task()), tmp_path / "checkpoint.npz"
    saver = CheckpointCallback(path, [Counter()], identity={"steps": 8})
    assert saver.restore(model) == 0
    model.optimizer.build(model.trainable_variables)
    ones = [keras.ops.ones_like(v) for v in model.trainable_variables]
    model.optimizer.apply(ones, model.trainable_variables)
    saver.set_model(model)
    saver.on_epoch_end(2)
    return model, path


def test_a_checkpoint_holds_everything(written, tmp_path):
    model, path = written
    counters = [Counter(i) for i in range(12)]  # so that callback_1 is no prefix of another's name
    saver = CheckpointCallback(path, [keras.callbacks.Callback(), *counters], identity={"steps": 8})
    saver.set_model(model)
    saver.on_epoch_end(2)
    fresh, restored = compiled(Task()), [Counter() for _ in range(12)]
    assert CheckpointCallback(path, restored, identity={"steps": 8}).restore(fresh) == 3
    assert [counter.count for counter in restored] == list(range(12))
    for ours, its in ((model, fresh), (model.optimizer, fresh.optimizer)):
        np.testing.assert_equal([v.numpy() for v in its.variables], [v.numpy() for v in ours.variables])


def test_another_training_is_refused(written):
    model, path = written
    message = r"another run: steps is 8 there and .* here. Train with the same arguments .* delete it"
    for identity in ({"steps": 9}, {}):
        with pytest.raises(ValueError, match=message):
            CheckpointCallback(path, [Counter()], identity=identity).restore(model)
    with pytest.raises(ValueError, match=r"another run: shapes.* there and .* here; "):
        CheckpointCallback(path, [Counter()], identity={"steps": 8}).restore(compiled(Task(num_rules=3)))
    with pytest.raises(ValueError, match=r"callbacks is \[\['Counter', None\]\] there and \[\] here"):
        CheckpointCallback(path, identity={"steps": 8}).restore(model)


NAMES = ("epoch", "begun", "num_means", "variable_0", "identity", "callback_0_count")
ANOTHER = [
    lambda arrays: {"number": np.array(3)},
    lambda arrays: {},
    *(lambda arrays, name=name: {k: v for k, v in arrays.items() if k != name} for name in NAMES),
    lambda arrays: {**arrays, "num_means": np.array("many")},
    lambda arrays: {**arrays, "epoch": np.array(np.nan)},
    lambda arrays: {**arrays, "identity": np.array("8 steps")},
    lambda arrays: {**arrays, "callback_0_count": np.array([])},
]  # fmt: skip


def test_a_whole_file_of_another_version_is_refused(written):
    model, path = written
    arrays = checkpoint_file.load(path)
    for change in ANOTHER:
        checkpoint_file.save(path, change(arrays))
        with pytest.raises(ValueError, match=r"checkpoint\.npz is the checkpoint of another run"):
            CheckpointCallback(path, [Counter()], identity={"steps": 8}).restore(model)
        assert path.exists()


# Four batches and a half are an epoch of the data, so that runs are interrupted inside of one.
POPULATION = Population.of([Task(num_train=18), Task(num_train=18, data_seed=1)], [0, 1])


class Interrupted(EvaluateCallback):
    """Raises where this step is to be evaluated."""

    def __init__(self, evaluator, step=None):
        super().__init__(evaluator)
        self.step = step

    def _measure(self, step):
        if step == self.step:
            self.found = []  # it has begun
            raise Terminated
        super()._measure(step)


class Interrupting(keras.callbacks.Callback):
    """Raises after so many steps, before the next are taken."""

    def __init__(self, steps, error):
        super().__init__()
        self.steps, self.error = steps, error

    def on_train_batch_begin(self, batch, logs=None):
        if int(self.model.optimizer.iterations.numpy()) == self.steps:
            raise self.error


@pytest.mark.slow
def test_an_interruption_loses_nothing(small_sizes, tmp_path, capsys, monkeypatch):
    model = build(POPULATION, "gumbel", 4)  # its noise follows a step that it stores
    initial = [variable.numpy() for variable in model.variables]
    evaluator = Evaluator(model, POPULATION, small_sizes.smaller(1), "validation")

    def run(path, before=None, evaluating=None, error=Terminated):
        """Return all results of a training up to the interruption."""
        for variable, value in zip(model.variables, initial, strict=True):
            variable.assign(value)
        evaluation = Interrupted(evaluator, evaluating)
        best = BestWeights(evaluation)
        history = train(
            model, POPULATION, 16, batch_size=4, learning_rate=0.01, evaluations=2,
            steps_per_execution=2, jit_compile=False, evaluation=evaluation, checkpoint=path,
            callbacks=[best, Interrupting(before, error)], verbose=False,
        )  # fmt: skip
        variables = [v.numpy() for v in (*model.variables, *model.optimizer.variables)]
        records = [values for _, values in sorted(stack_scores(evaluation.found).named().items())]
        return [*variables, *best.weights, *records, history.history["loss"][-1]]

    def begun(path):
        arrays = checkpoint_file.load(path) or {}
        return int(arrays["epoch"]), int(arrays["begun"])

    expected, path, steps = run(None), tmp_path / "checkpoint.npz", []
    for where in ({"before": 6}, {"evaluating": 8}, {"before": 12}):
        with pytest.raises(Terminated):
            run(path, **where)
        steps.append(begun(path))
    assert steps == [(0, 6), (0, 8), (1, 4)]
    np.testing.assert_equal(run(path), expected)
    assert capsys.readouterr().out == ""
    for every, before, error, last in (
        (30.0, 8, Terminated, (1, 0)),  # an epoch has ended without a checkpoint
        (0.0, 14, ZeroDivisionError, (1, 6)),  # killed without notice
        (1e9, 14, ZeroDivisionError, None),
    ):
        path.unlink()
        monkeypatch.setattr(checkpoint, "EVERY", every)
        with pytest.raises(error):
            run(path, before=before, error=error)
        assert (begun(path) if path.exists() else None) == last
        np.testing.assert_equal(run(path), expected)
