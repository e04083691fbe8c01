"""The cell function of every study: trains and evaluates."""

from pathlib import Path
from typing import Any

from modtf.cell import Cell
from modtf.engines.perform import Report


def train_cell(cell: Cell, out: Path, report: Report) -> None:
    """`modtf.run_cell` in silence; TensorFlow is imported here, in the process that needs it."""
    from modtf.engines.cell import run_cell

    run_cell(cell, out, verbose=False, callbacks=[_reporting(report, cell)])


def _reporting(report: Report, cell: Cell) -> Any:
    """A Keras callback that tells how many steps are done, on average over members that train in turn."""
    import keras

    from modtf.models.build import trains_alone

    turns = len(cell.members) if trains_alone(cell) else 1

    class Reporting(keras.callbacks.Callback):
        turn = 0

        def on_train_batch_end(self, batch, logs=None):
            report((self.turn * cell.protocol.training.steps + self.begun + batch + 1) // turns)

        def on_train_end(self, logs=None):
            self.turn += 1

        def on_epoch_begin(self, epoch, logs=None):
            self.begun = epoch * self.params["steps"]

    return Reporting()
