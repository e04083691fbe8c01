"""Reads saved models back: `modtf.load_model`."""

from pathlib import Path

import keras

from modtf.models.architectures import ARCHITECTURES


def load_model(path: str | Path) -> keras.Model:
    """Reads a model that `model.save("x.keras")` wrote, whatever has been imported so far.

    `keras.saving.load_model` finds a class only after the module that registers it was imported. This
    imports those of modtf, then calls it; in a process that has built or loaded a model of the same
    architecture, the two are the same.

    Example:
        >>> model = modtf.load_model("runs/mlp/.../best.keras")
    """
    import modtf.training.loss
    import modtf.training.optimizer  # noqa: F401

    for name in ARCHITECTURES:
        ARCHITECTURES[name]  # looking it up imports it
    return keras.saving.load_model(path)
