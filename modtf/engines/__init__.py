"""The engines that run the cells of a study. A new engine is one file and one line here."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from modtf.base.registry import Registry
from modtf.tasks.cell import Cell


class Engine(Protocol):
    """Calls `modtf.engines.state.work_on` for cells, in this process or elsewhere.

    An engine tells nothing: progress, results and errors of cells are read from their files.
    """

    is_here: bool  # whether all cells run on this machine, and must fit into its memory

    def run(self, cells: Sequence[Cell], out: str, plugins: Sequence[str], function: str) -> Iterator[None]:
        """Run the cells. Yield at least every second, until no cell is left that this engine can run now.

        `out` is the study's folder. `plugins` are to be loaded in other processes, before `function`, the
        reference to a `modtf.engines.cell.CellFunction`, is resolved.
        """

    def close(self) -> None:
        """Stop the work, let it be saved, and leave no process behind."""


def check_engine(name: str, engine: Any) -> None:
    """Raise `ValueError` if an engine lacks something that a study requires."""
    if not all(callable(getattr(engine, method, None)) for method in ("run", "close")):
        raise ValueError(
            f"The engine {name!r} does not define run(cells, out, plugins, function) and close(), which "
            "modtf.engines.Engine documents."
        )


ENGINES: Registry[type[Engine]] = Registry(
    "engine", {"local": "modtf.engines.local", "ray": "modtf.engines.on_ray"}, check_engine
)
register_engine = ENGINES.register
