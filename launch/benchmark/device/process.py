"""A process that measures, one cell at a time, and can be stopped at any."""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

WORKER = "modtf.launch.benchmark.device.worker"


class WorkerDiedError(RuntimeError):
    """It ended without an answer; the message is the last line that it printed."""


class Worker:
    """Use it in a `with` statement.

    Args:
        common: what all cells share: `device`, `backend`, `plugins`, `repeats`, `seconds`, `profile`.

    Attributes:
        device: the name of the device that it measures on.

    Raises:
        ValueError: where there is no such device.
    """

    def __init__(self, common: Mapping[str, Any]):
        self._noise = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._noise,
            text=True, env={**os.environ, **device_environment(common["device"], common["backend"])},
        )  # fmt: skip
        try:
            found = self._ask(common)
            if "error" in found:
                raise ValueError(found["error"])
        except BaseException:
            self.close()
            raise
        self.device: str = found["device"]

    def measure(self, cell: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """The row of a cell.

        Args:
            seconds: after which it is stopped.

        Raises:
            WorkerDiedError: where it was stopped, or broke.
        """
        timer = threading.Timer(max(0.0, seconds), self._process.kill)
        timer.start()
        try:
            return self._ask(cell)["row"]
        finally:
            timer.cancel()

    def _ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps(question) + "\n")
            stdin.flush()
        except BrokenPipeError:
            pass  # what it said last tells why
        line = stdout.readline()
        if not line:
            raise WorkerDiedError(self._last_words())
        return json.loads(line)

    def _last_words(self) -> str:
        self._noise.seek(0)
        return (self._noise.read().strip().splitlines() or ["nothing was printed"])[-1]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._noise.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def device_environment(device: str, backend: str) -> dict[str, str]:
    """Environment variables for a process that computes on such a device; JAX keeps its CPU beside a GPU."""
    chosen = {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    if device == "cpu":
        return {**chosen, "CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if platforms and "cpu" not in platforms.split(","):
        chosen["JAX_PLATFORMS"] = f"{platforms},cpu"
    return chosen
