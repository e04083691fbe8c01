"""Resumes a killed run exactly from its last checkpoint, if it is the same training."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import keras
import numpy as np

from modtf.base.checks import differences
from modtf.models.base import ModularModel
from modtf.models.own import hash_of_config
from modtf.models.source import hash_of_code
from modtf.tasks.population import Population
from modtf.tasks.protocol import Training
from modtf.training import checkpoint_file
from modtf.training.compile import training_variables
from modtf.xla.jax_trainer import give_state

EVERY = 30.0  # seconds between two checkpoints
SHOWN = 3  # differences, in an error
#: arguments of `modtf.train` that may change on resuming: they do not affect the results
MAY_DIFFER = ("data", "devices", "jit_compile", "steps_per_execution", "verbose", "label")

NOT_IN_IDENTITY = ("population", "trained_on", "name")  # of a model's config; tasks and seeds are in it


def identity_of(
    model: keras.Model, population: Population, training: Training, **more: Any
) -> dict[str, Any]:
    """Return the scientific definition of a training, JSON-able; `more` distinguishes it from others.

    A model of modtf is identified by architecture, variant, options, width and seeds; another model by the
    name and the source of its class, without comments, and by `hash_of_config`. Shapes of weights are
    compared as well.
    """
    numbers = {name: value for name, value in asdict(training).items() if (name, value) != ("tail", 0)}
    if isinstance(model, ModularModel):
        known = {**model.get_config(), **_members(model.population), "architecture": type(model).__name__}
        known = {name: value for name, value in known.items() if name not in NOT_IN_IDENTITY}
    else:
        known = {"name": type(model).__qualname__, "source": hash_of_code(type(model))}
        known["config"] = hash_of_config(model)
    return {**more, "data": _members(population), "model": known, "training": numbers}


def _members(population: Population) -> dict[str, Any]:
    return {"tasks": [task.name for task in population.tasks], "seeds": list(population.seeds)}


class CheckpointCallback(keras.callbacks.Callback):
    """Writes weights, optimizer, epoch and callback states into one file, atomically, every `EVERY` seconds
    and after the last epoch.

    It stores callbacks that have `state()` and `load_state(state)`; see `modtf.training.checkpoint_file`.
    (`keras.callbacks.BackupAndRestore` writes weights and epoch separately: a kill between the two resumes
    with the wrong data.) `epochs` counts finished epochs. `begun` counts the finished steps of the next one:
    more than 0 if the checkpoint was written inside of an epoch.
    """

    def __init__(
        self,
        path: str | Path,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        identity: Mapping[str, Any] | None = None,
    ):
        super().__init__()
        self.path, self.identity = Path(path), dict(identity or {})
        self.kept: list[Any] = [
            one for one in callbacks if hasattr(one, "state") and hasattr(one, "load_state")
        ]
        self.epochs = self.begun = 0
        self._means: list[np.ndarray] = []  # Keras's running means of the unfinished epoch
        self._before_its_end: dict[str, np.ndarray] | None = None
        self._written, self._is_behind = -EVERY, False  # by the clock; whether an epoch has ended since

    def restore(self, model: keras.Model) -> int:
        """Load the last undamaged checkpoint, if any, into a compiled model; return the finished epochs.

        Raises:
            ValueError: if it belongs to another training; nothing is loaded or overwritten.
        """
        arrays = checkpoint_file.load(self.path)
        if arrays is None:
            return 0
        model.optimizer.build(model.trainable_variables)
        try:
            saved, expected = (json.loads(text) for text in (str(arrays["identity"]), self._identity(model)))
            if "config" not in saved.get("model", {}):  # the record of an earlier version
                expected.get("model", {}).pop("config", None)
            if not (differ := differences(saved, expected)):
                self._put(model, arrays)
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise ValueError(
                f"{self.path} is the checkpoint of another run or of another version of modtf "
                f"({type(error).__name__}: {error}). Delete it."
            ) from error
        if differ:
            shown = "; ".join([*differ[:SHOWN], *(["..."] if len(differ) > SHOWN else [])])
            raise ValueError(
                f"{self.path} is the checkpoint of another run: {shown}. Train with the same arguments to "
                f"resume it ({', '.join(MAY_DIFFER)} may differ), give another file, or delete it."
            )
        return self.epochs

    def _identity(self, model: keras.Model) -> str:
        kept = [(type(one).__name__, getattr(one, "identity", None)) for one in self.kept]
        shapes = [list(variable.shape) for variable in training_variables(model)]
        return json.dumps({**self.identity, "callbacks": kept, "shapes": shapes}, default=str)

    def _put(self, model: keras.Model, arrays: checkpoint_file.Arrays) -> None:
        for i, variable in enumerate(training_variables(model)):
            variable.assign(arrays[f"variable_{i}"])
        for i, callback in enumerate(self.kept):
            prefix = f"callback_{i}_"
            state = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
            callback.load_state(state)
        self.epochs, self.begun = int(arrays["epoch"]), int(arrays["begun"])
        self._means = [arrays[f"mean_{i}"] for i in range(int(arrays["num_means"]))]

    def on_train_begin(self, logs=None):
        self._written = time.monotonic()

    def on_epoch_begin(self, epoch, logs=None):
        means = self.model.metrics_variables
        if len(self._means) == len(means):  # Keras has just reset them
            for variable, value in zip(means, self._means, strict=True):
                variable.assign(value)
        self._means = []

    def on_train_batch_end(self, batch, logs=None):
        # `batch` is the first or last step of the call, depending on the Keras version
        if batch + self.model.steps_per_execution >= self.params["steps"]:
            # copies: callbacks may change these arrays at the end of the epoch
            self._before_its_end = {name: np.array(value) for name, value in self._states().items()}
        elif self._is_due:
            self.save_begun()

    def on_epoch_end(self, epoch, logs=None):
        self.epochs, self._before_its_end, self._is_behind = epoch + 1, None, True
        if self._is_due or self.epochs == (self.params or {}).get("epochs"):
            self._write(self.epochs, 0, self._states())

    @property
    def _is_due(self) -> bool:
        return time.monotonic() >= self._written + EVERY

    def save_begun(self) -> None:
        """Write everything so far, with the finished part of an epoch: now, or after an exception in `fit`.

        A part is not written if it could not be resumed: with other backends than TensorFlow and JAX, where
        the model does not hold its weights during training, after an exception in a program of JAX, which has
        consumed them, or with stored callbacks that follow single steps.
        """
        backend = keras.backend.backend()
        if backend not in ("tensorflow", "jax") or not self.params:  # or `fit` has not started
            return
        if backend == "jax" and not give_state(self.model):
            return
        begun, states = int(self.model.optimizer.iterations.numpy()), self._before_its_end
        begun -= self.epochs * self.params["steps"]
        resumes = begun == 0 or states is not None or not any(map(_follows_steps, self.kept))
        if (begun or self._is_behind) and resumes:
            self._write(self.epochs, begun, self._states() if states is None else states)

    def _states(self) -> dict[str, np.ndarray]:
        states = enumerate(callback.state() for callback in self.kept)
        return {f"callback_{i}_{name}": value for i, state in states for name, value in state.items()}

    def _write(self, epoch: int, begun: int, states: Mapping[str, np.ndarray]) -> None:
        variables = training_variables(self.model)
        means = self.model.metrics_variables if begun else []
        numbers = {"epoch": epoch, "begun": begun, "num_means": len(means)}
        arrays = {name: np.array(number) for name, number in numbers.items()}
        arrays |= {f"variable_{i}": v.numpy() for i, v in enumerate(variables)}
        arrays |= {f"mean_{i}": v.numpy() for i, v in enumerate(means)}
        checkpoint_file.save(
            self.path, {**arrays, **states, "identity": np.array(self._identity(self.model))}
        )
        self._written, self._is_behind = time.monotonic(), False


def _follows_steps(callback: keras.callbacks.Callback) -> bool:
    """Return whether a callback acts at single steps, which a resumed epoch does not repeat."""
    names = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")
    return any(getattr(type(callback), name) is not getattr(keras.callbacks.Callback, name) for name in names)


def skip_steps(model: keras.Model, steps: int) -> None:
    """Make the first calls of the training function, which stand for `steps` steps, do nothing.

    `fit` then continues in the middle of an epoch; its data must start after those steps. The model must be
    compiled, and its `steps_per_execution` must divide `steps`.
    """
    model.make_train_function()
    function, left = model.train_function, steps
    names = dict.fromkeys(model.get_metrics_result(), 0.0)  # with JAX, Keras puts the restored means in

    def skipping(*arguments):  # an iterator; with JAX after the state
        nonlocal left
        if left <= 0:
            return function(*arguments)
        left -= model.steps_per_execution
        return (names, arguments[0]) if len(arguments) > 1 else model.get_metrics_result()

    model.train_function = skipping
