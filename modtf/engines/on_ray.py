"""An engine for Ray clusters: one task per cell."""

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

from modtf.base.checks import check_integer, check_number
from modtf.base.extras import need
from modtf.base.plugins import load_plugin
from modtf.base.registry import resolve
from modtf.engines import register_engine
from modtf.engines.state import StopError, fail_cell, work_on
from modtf.tasks.cell import Cell
from modtf.training.machine import thread_variables

RECYCLE = 20  # cells after which Ray replaces a worker


@register_engine("ray")
class RayEngine:
    """Tasks on a running cluster (`ray start`), or on a cluster of this machine alone, which listens on the
    loopback address and has no dashboard.

    Every node needs modtf, the plug-ins and the study's folder at the same paths.

    Args:
        cpus: processors per cell; its TensorFlow uses as many threads.
        gpus: GPUs per cell; with 0.5 two cells share one.
        retries: how often Ray retries a cell whose worker or node died; it resumes from its checkpoint.
    """

    is_here = False

    def __init__(self, cpus: float = 1.0, gpus: float = 0.0, retries: int = 3):
        self.cpus = check_number("cpus", cpus, 0.0, float("inf"))
        self.gpus = check_number("gpus", gpus, 0.0, float("inf"))
        self.retries = check_integer("retries", retries, 0)
        self._running: dict[Any, Cell] = {}  # by references of Ray

    def run(self, cells: Sequence[Cell], out: str, plugins: Sequence[str], function: str) -> Iterator[None]:
        """See `Engine`."""
        ray = need("ray", "cluster", "--engine=ray")
        if not ray.is_initialized():
            start(ray)
        variables = thread_variables(max(1, round(self.cpus)))
        if "PYTHONPATH" in os.environ:
            variables["PYTHONPATH"] = os.environ["PYTHONPATH"]
        task = ray.remote(
            num_cpus=self.cpus,
            num_gpus=self.gpus,
            max_retries=self.retries,
            max_calls=RECYCLE,
            runtime_env={"env_vars": variables},
        )(_work_on)
        self._running = {task.remote(cell.to_dict(), out, plugins, function): cell for cell in cells}
        while self._running:
            done, _ = ray.wait(list(self._running), timeout=1.0)
            for reference in done:
                self._end(ray, reference, self._running.pop(reference), out)
            yield

    def _end(self, ray: Any, reference: Any, cell: Cell, out: str) -> None:
        """Take note of the end of a task. If its workers died, the cell has failed."""
        try:
            ray.get(reference)
            return
        except StopError as error:
            raise StopError(str(getattr(error, "cause", error))) from None
        except ray.exceptions.RayError as error:
            reason = f"{type(error).__name__} after {self.retries} retries: {' '.join(str(error).split())}"
        fail_cell(cell, out, reason)

    def close(self) -> None:
        """See `Engine`."""
        if self._running:
            ray = need("ray", "cluster", "--engine=ray")
            for reference in self._running:
                ray.cancel(reference, force=False)  # raises KeyboardInterrupt in it
            ray.wait(list(self._running), num_returns=len(self._running), timeout=20.0)
            self._running = {}


def start(ray: Any) -> None:
    """Join the cluster of `$RAY_ADDRESS` (raise `ConnectionError` if it is absent), or the one this machine
    belongs to; else start one that listens on the loopback address only."""
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        ray.init(address="auto", **quiet)
    except ConnectionError:
        if os.environ.get("RAY_ADDRESS"):
            raise
        # as RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before the import: one machine alone, so 127.0.0.1
        ray._private.ray_constants.ENABLE_RAY_CLUSTER = False
        ray.init(address="local", _node_ip_address="127.0.0.1", include_dashboard=False, **quiet)


def _work_on(config: dict[str, Any], out: str, plugins: Sequence[str], function: str) -> None:
    for plugin in plugins:
        load_plugin(plugin)
    work_on(Cell.from_dict(config), out, resolve(function))
