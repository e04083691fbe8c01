"""Resumes a killed run exactly where its last evaluation was."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import keras
import numpy as np

from modtf.files import atomic_path


class Stateful(Protocol):
    """Something beside the model that must survive a kill."""

    def state(self) -> dict[str, np.ndarray]: ...

    def load_state(self, state: dict[str, np.ndarray]) -> None: ...


class CheckpointCallback(keras.callbacks.Callback):
    """Writes weights, optimizer, epoch and records into one file, atomically, after every epoch.

    (`keras.callbacks.BackupAndRestore` writes weights and epoch one after the other: a kill between
    the two resumes with the wrong data.)

    Args:
        path: the file, `*.npz`; deleted when training ends.
        others: whose state is kept too.
    """

    def __init__(self, path: str | Path, others: Sequence[Stateful] = ()):
        super().__init__()
        self.path, self.others = Path(path), list(others)

    def restore(self, model: keras.Model) -> int:
        """Puts the last checkpoint, if any, into a compiled model; returns the epochs already done."""
        if not self.path.exists():
            return 0
        model.optimizer.build(model.trainable_variables)
        with np.load(self.path) as saved:
            arrays = dict(saved)
        for i, variable in enumerate(_variables(model)):
            variable.assign(arrays[f"variable_{i}"])
        for i, other in enumerate(self.others):
            prefix = f"other_{i}_"
            other.load_state({k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)})
        return int(arrays["epoch"])

    def on_epoch_end(self, epoch, logs=None):
        arrays = {f"variable_{i}": v.numpy() for i, v in enumerate(_variables(self.model))}
        for i, other in enumerate(self.others):
            arrays |= {f"other_{i}_{name}": value for name, value in other.state().items()}
        with atomic_path(self.path) as temporary, temporary.open("wb") as file:
            np.savez(file, epoch=epoch + 1, **arrays)

    def on_train_end(self, logs=None):
        if not self.model.stop_training:
            self.path.unlink(missing_ok=True)


def _variables(model: keras.Model) -> list:
    return [*model.variables, *model.optimizer.variables]
