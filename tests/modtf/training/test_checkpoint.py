"""A checkpoint holds everything, is whole or absent, and is refused by another training."""

import keras
import numpy as np
import pytest

from modtf.models.build import build
from modtf.task import Task
from modtf.training import archive
from modtf.training.callbacks.checkpoint import CheckpointCallback


def compiled(task):
    model = build(task, "modular", 2)
    model.compile("adam")
    return model


class Counter(keras.callbacks.Callback):
    """Something that must survive a kill."""

    count = 0

    def state(self):
        return {"count": np.array(self.count)}

    def load_state(self, state):
        self.count = int(state["count"])


class Broken(Counter):
    def state(self):
        raise OSError("disk full")


def test_a_checkpoint_holds_everything(tmp_path):
    model, path = compiled(Task()), tmp_path / "checkpoint.npz"
    counters = [Counter() for _ in range(12)]  # so that callback_1 is no prefix of another's name
    for i, counter in enumerate(counters):
        counter.count = i
    saver = CheckpointCallback(path, [keras.callbacks.Callback(), *counters], settings={"steps": 8})
    assert saver.restore(model) == 0
    model.optimizer.build(model.trainable_variables)
    model.optimizer.apply(
        [keras.ops.ones_like(v) for v in model.trainable_variables], model.trainable_variables
    )
    saver.set_model(model)
    saver.on_epoch_end(2)
    fresh, restored = compiled(Task()), [Counter() for _ in range(12)]
    assert CheckpointCallback(path, restored, settings={"steps": 8}).restore(fresh) == 3
    assert [counter.count for counter in restored] == list(range(12))
    for a, b in zip(model.variables, fresh.variables, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(model.optimizer.variables, fresh.optimizer.variables, strict=True):
        np.testing.assert_array_equal(a, b)
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.npz"]


def test_another_training_is_refused(tmp_path):
    model, path = compiled(Task()), tmp_path / "checkpoint.npz"
    saver = CheckpointCallback(path, [Counter()], settings={"steps": 8})
    model.optimizer.build(model.trainable_variables)
    saver.set_model(model)
    saver.on_epoch_end(0)
    message = r"another training: .* Train with the same arguments .* or delete it"
    with pytest.raises(ValueError, match=message):
        CheckpointCallback(path, [Counter()], settings={"steps": 9}).restore(model)
    other = compiled(Task(num_rules=3))
    with pytest.raises(ValueError, match="another training"):
        CheckpointCallback(path, [Counter()], settings={"steps": 8}).restore(other)
    with pytest.raises(ValueError, match="keeps the callbacks Counter, these are none"):
        CheckpointCallback(path, settings={"steps": 8}).restore(model)


def test_a_failed_write_keeps_the_last_checkpoint(tmp_path):
    model, path = compiled(Task()), tmp_path / "checkpoint.npz"
    saver = CheckpointCallback(path)
    saver.set_model(model)
    saver.on_epoch_end(0)
    content = path.read_bytes()
    saver.kept.append(Broken())
    with pytest.raises(OSError, match="disk full"):
        saver.on_epoch_end(1)
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.npz"]


NAMES = ("epoch", "begun", "num_variables", "num_means", "variable_0", "callbacks", "callback_0_count")
ANOTHER = [
    lambda arrays: {"number": np.array(3)},
    lambda arrays: {},
    *(lambda arrays, name=name: {k: v for k, v in arrays.items() if k != name} for name in NAMES),
    lambda arrays: {**arrays, "num_variables": np.array("many")},
    lambda arrays: {**arrays, "num_variables": np.array([1, 2])},
    lambda arrays: {**arrays, "epoch": np.array(np.nan)},
    lambda arrays: {**arrays, "setting_steps": np.array("8 steps")},
    lambda arrays: {**arrays, "callback_0_count": np.array([])},
]  # fmt: skip


@pytest.mark.parametrize("change", ANOTHER)
def test_a_whole_file_of_another_version_is_refused(tmp_path, change):
    model, path = compiled(Task()), tmp_path / "checkpoint.npz"
    saver = CheckpointCallback(path, [Counter()], settings={"steps": 8})
    assert saver.restore(model) == 0
    model.optimizer.build(model.trainable_variables)
    saver.set_model(model)
    saver.on_epoch_end(2)
    archive.save(path, change(archive.load(path)))
    with pytest.raises(ValueError, match=r"checkpoint\.npz is the checkpoint of another training"):
        CheckpointCallback(path, [Counter()], settings={"steps": 8}).restore(compiled(Task()))
    assert path.exists()
