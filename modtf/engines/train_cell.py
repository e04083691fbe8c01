"""The cell function of every study: trains and evaluates."""

from pathlib import Path
from typing import Any

from modtf.cell import Cell
from modtf.engines.perform import Report


def train_cell(cell: Cell, out: Path, report: Report) -> None:
    """`modtf.run_cell` in silence; TensorFlow is imported here, in the process that needs it."""
    from modtf.engines.cell import run_cell

    run_cell(cell, out, verbose=False, callbacks=[_reporting(report)])


def _reporting(report: Report) -> Any:
    """A Keras callback that tells how many steps are done."""
    import keras

    class Reporting(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            report(self.begun + batch + 1)

        def on_epoch_begin(self, epoch, logs=None):
            self.begun = epoch * self.params["steps"]

    return Reporting()
