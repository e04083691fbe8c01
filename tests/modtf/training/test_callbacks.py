"""The callbacks alone: best weights per member, checkpoints, the progress bar."""

import keras
import numpy as np
import pytest

from modtf.training.callbacks.best import BestWeights
from modtf.training.callbacks.checkpoint import CheckpointCallback
from modtf.training.callbacks.progress import ProgressCallback
from modtf.training.callbacks.tensorboard import heat_maps
from modtf.models.build import build
from modtf.task import Task


def assign_all(model, value):
    for variable in model.trainable_variables:
        variable.assign(np.full(variable.shape, value))


def test_best_weights_are_each_members_own():
    model = build([Task(), Task()], "modular", 2, [0, 1])
    best = BestWeights(model, 2)
    for step, losses in enumerate([[3.0, 1.0], [2.0, 2.0], [np.nan, 0.5], [2.0, 9.0]]):
        assign_all(model, step)
        best(step, {"loss": np.array(losses)}, np.zeros([2, 2, 2]))
    assert best.loss.tolist() == [2.0, 0.5]
    assert best.step.tolist() == [1, 2]
    for values in best.weights:
        assert np.all(values[0] == 1)
        assert np.all(values[1] == 2)


def test_best_weights_survive_a_kill():
    model = build([Task(), Task()], "modular", 2, [0, 1])
    best, resumed = BestWeights(model, 2), BestWeights(model, 2)
    assign_all(model, 7)
    best(5, {"loss": np.array([1.0, 2.0])}, np.zeros([2, 2, 2]))
    resumed.load_state({name: value.copy() for name, value in best.state().items()})
    assert resumed.step.tolist() == [5, 5]
    assign_all(model, 8)
    resumed(6, {"loss": np.array([0.5, 3.0])}, np.zeros([2, 2, 2]))
    assert [float(values[0].max()) for values in resumed.weights[:1]] == [8.0]
    assert [float(values[1].max()) for values in resumed.weights[:1]] == [7.0]


def compiled(task):
    model = build(task, "modular", 2)
    model.compile("adam")
    return model


def test_a_checkpoint_holds_everything(tmp_path):
    model, path = compiled(Task()), tmp_path / "checkpoint.npz"
    saver = CheckpointCallback(path, settings={"steps": 8})
    assert saver.restore(model) == 0
    model.optimizer.build(model.trainable_variables)
    model.optimizer.apply(
        [keras.ops.ones_like(v) for v in model.trainable_variables], model.trainable_variables
    )
    saver.set_model(model)
    saver.on_epoch_end(2)
    fresh = compiled(Task())
    assert CheckpointCallback(path, settings={"steps": 8}).restore(fresh) == 3
    for a, b in zip(model.variables, fresh.variables, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(model.optimizer.variables, fresh.optimizer.variables, strict=True):
        np.testing.assert_array_equal(a, b)
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.npz"]
    with pytest.raises(
        ValueError, match=r"another training: .* Train with the same arguments .* or delete it"
    ):
        CheckpointCallback(path, settings={"steps": 9}).restore(fresh)
    with pytest.raises(ValueError, match="another training"):
        CheckpointCallback(path, settings={"steps": 8}).restore(compiled(Task(num_rules=3)))


def test_a_failed_write_keeps_the_last_checkpoint(tmp_path):
    class Broken:
        def state(self):
            raise OSError("disk full")

        def load_state(self, state):
            raise NotImplementedError

    model, path = compiled(Task()), tmp_path / "checkpoint.npz"
    saver = CheckpointCallback(path)
    saver.set_model(model)
    saver.on_epoch_end(0)
    content = path.read_bytes()
    saver.others.append(Broken())
    with pytest.raises(OSError, match="disk full"):
        saver.on_epoch_end(1)
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.npz"]


def test_progress_counts_every_step(capsys):
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


def test_heat_maps_match_modules_to_rules():
    images = heat_maps(np.stack([np.eye(3)[[2, 0, 1]], np.eye(3)]))
    assert images.shape == (2, 72, 72, 3)
    np.testing.assert_array_equal(images[0], images[1])
    assert heat_maps(np.ones([1, 3, 1])).shape == (1, 72, 24, 3)
