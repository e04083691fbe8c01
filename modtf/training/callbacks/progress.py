"""One progress bar for the whole training."""

import keras
from tqdm.auto import tqdm


class ProgressCallback(keras.callbacks.Callback):
    """Steps, speed, time left, the running loss and the last evaluation, on one line.

    Args:
        total: steps in all.
        done: steps done before (a resumed run).
        label: what is being trained.
    """

    def __init__(self, total: int, done: int = 0, label: str = ""):
        super().__init__()
        self.total, self.done, self.label = total, done, label
        self._last = -1
        self._shown: dict[str, str] = {}

    def on_train_begin(self, logs=None):
        self._bar = tqdm(total=self.total, initial=self.done, desc=self.label, unit="step", smoothing=0.1)

    def on_epoch_begin(self, epoch, logs=None):
        self._last = -1

    def on_train_batch_end(self, batch, logs=None):
        self._bar.update(batch - self._last)
        self._last = batch
        self._show(loss=logs)

    def on_epoch_end(self, epoch, logs=None):
        self._show(val_loss=logs)

    def on_train_end(self, logs=None):
        self._bar.close()

    def _show(self, **sources):
        for name, logs in sources.items():
            if logs and name in logs:
                self._shown[name] = f"{float(logs[name]):.4f}"
        self._bar.set_postfix(self._shown, refresh=False)
