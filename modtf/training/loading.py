"""Reads saved models back: `modtf.load_model`."""

from pathlib import Path

import keras

from modtf.checks import check_path
from modtf.models.architectures import ARCHITECTURES


def load_model(path: str | Path) -> keras.Model:
    """Reads a model that `model.save("x.keras")` wrote, whatever has been imported so far.

    `keras.saving.load_model` finds a class only after the module that registers it was imported. This
    imports those of modtf, then calls it; in a process that has built or loaded a model of the same
    architecture, the two are the same.

    Args:
        path: an archive `*.keras`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not a whole model that this version knows, or holds code.

    Example:
        >>> model = modtf.load_model("runs/mlp/.../best.keras")
    """
    import modtf.training.compile
    import modtf.training.optimizer  # noqa: F401

    check_path("path", path)
    if not Path(path).exists():
        raise FileNotFoundError(f"There is no file {str(path)!r}. Give one that model.save('x.keras') wrote.")
    for name in ARCHITECTURES:
        ARCHITECTURES[name]  # looking it up imports it
    try:
        return keras.saving.load_model(path, safe_mode=True)
    except FileNotFoundError:
        raise
    except Exception as error:  # whatever a damaged file makes Keras, HDF5 or zip raise
        reason = " ".join(str(error).split())[:500] or type(error).__name__
        raise ValueError(
            f"{path} cannot be read as a model ({reason}). Expected what model.save('x.keras') wrote; code "
            "in it is never run."
        ) from error
