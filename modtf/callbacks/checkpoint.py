"""Resumes a killed run exactly where its last evaluation was."""

from pathlib import Path

import keras
import numpy as np

from modtf.callbacks.evaluate import EvaluateCallback
from modtf.files import atomic_path


class CheckpointCallback(keras.callbacks.Callback):
    """Writes weights, optimizer, epoch and records into one file, atomically, after every epoch.

    (`keras.callbacks.BackupAndRestore` writes weights and epoch one after the other: a kill between
    the two resumes with the wrong data.)

    Args:
        path: the file, `*.npz`; deleted when training ends.
        evaluation: whose records are kept too.
    """

    def __init__(self, path: str | Path, evaluation: EvaluateCallback | None = None):
        super().__init__()
        self.path, self.evaluation = Path(path), evaluation

    def restore(self, model: keras.Model) -> int:
        """Puts the last checkpoint, if any, into a compiled model; returns the epochs already done."""
        if not self.path.exists():
            return 0
        model.optimizer.build(model.trainable_variables)
        with np.load(self.path) as saved:
            arrays = dict(saved)
        for i, variable in enumerate(_variables(model)):
            variable.assign(arrays[f"variable_{i}"])
        if self.evaluation is not None:
            self.evaluation.load_state(
                {k.removeprefix("state_"): v for k, v in arrays.items() if k.startswith("state_")}
            )
        return int(arrays["epoch"])

    def on_epoch_end(self, epoch, logs=None):
        arrays = {f"variable_{i}": v.numpy() for i, v in enumerate(_variables(self.model))}
        if self.evaluation is not None:
            arrays |= {f"state_{name}": value for name, value in self.evaluation.state().items()}
        with atomic_path(self.path) as temporary, temporary.open("wb") as file:
            np.savez(file, epoch=epoch + 1, **arrays)

    def on_train_end(self, logs=None):
        if not self.model.stop_training:
            self.path.unlink(missing_ok=True)


def _variables(model: keras.Model) -> list:
    return [*model.variables, *model.optimizer.variables]
