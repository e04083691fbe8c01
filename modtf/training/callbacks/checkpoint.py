"""Resumes a killed run exactly where its last evaluation was."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import keras
import numpy as np

from modtf.files import atomic_path


@runtime_checkable
class Stateful(Protocol):
    """A callback with something that must survive a kill."""

    def state(self) -> dict[str, np.ndarray]: ...

    def load_state(self, state: dict[str, np.ndarray]) -> None: ...


class CheckpointCallback(keras.callbacks.Callback):
    """Writes weights, optimizer, epoch and callbacks into one file, atomically, after every epoch.

    (`keras.callbacks.BackupAndRestore` writes weights and epoch one after the other: a kill between
    the two resumes with the wrong data.)

    Args:
        path: the file, `*.npz`.
        callbacks: those among them that have `state()` and `load_state(state)` are kept too.
        settings: numbers that must be the same when training resumes, such as the batch size.
    """

    def __init__(
        self,
        path: str | Path,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        settings: Mapping[str, float] | None = None,
    ):
        super().__init__()
        self.path, self.settings = Path(path), dict(settings or {})
        self.kept = [callback for callback in callbacks if isinstance(callback, Stateful)]

    def restore(self, model: keras.Model) -> int:
        """Puts the last checkpoint, if any, into a compiled model; returns the epochs already done.

        Raises:
            ValueError: if it was written with other settings or callbacks, or by another model.
        """
        if not self.path.exists():
            return 0
        model.optimizer.build(model.trainable_variables)
        with np.load(self.path) as saved:
            arrays = dict(saved)
        variables = _variables(model)
        written = {name: float(arrays.get(f"setting_{name}", np.nan)) for name in self.settings}
        shapes = [arrays[f"variable_{i}"].shape for i in range(int(arrays["num_variables"]))]
        kept, names = arrays["callbacks"].tolist(), self._names()
        if (written, kept) != (self.settings, names) or shapes != [tuple(v.shape) for v in variables]:
            raise ValueError(
                f"{self.path} is the checkpoint of another training: its settings are {written}, these are "
                f"{self.settings}; its model has {len(shapes)} variables, this has {len(variables)}; it "
                f"keeps the callbacks {', '.join(kept) or 'none'}, these are {', '.join(names) or 'none'}. "
                "Train with the same arguments to resume it, or delete it."
            )
        for i, variable in enumerate(variables):
            variable.assign(arrays[f"variable_{i}"])
        for i, callback in enumerate(self.kept):
            prefix = f"callback_{i}_"
            state = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
            callback.load_state(state)
        return int(arrays["epoch"])

    def on_epoch_end(self, epoch, logs=None):
        variables = _variables(self.model)
        arrays = {f"variable_{i}": v.numpy() for i, v in enumerate(variables)}
        arrays |= {f"setting_{name}": np.array(value) for name, value in self.settings.items()}
        for i, callback in enumerate(self.kept):
            arrays |= {f"callback_{i}_{name}": value for name, value in callback.state().items()}
        arrays["callbacks"] = np.array(self._names(), str)
        with atomic_path(self.path) as temporary, temporary.open("wb") as file:
            np.savez(file, epoch=epoch + 1, num_variables=len(variables), **arrays)

    def _names(self) -> list[str]:
        return [type(callback).__name__ for callback in self.kept]


def _variables(model: keras.Model) -> list:
    return [*model.variables, *model.optimizer.variables]
