"""What an engine is."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from modtf.cell import Cell
from modtf.engines.perform import Outcome, Work


@dataclass(frozen=True)
class Event:
    """News of a cell: how many of its steps are done, and how it ended, if it has."""

    cell: Cell
    steps: int = 0
    outcome: Outcome | None = None


class Engine(Protocol):
    """Runs `modtf.engines.perform.perform` on cells, somewhere."""

    is_here: bool  # whether all cells run on this machine, and must fit into its memory

    def run(self, cells: Sequence[Cell], work: Work) -> Generator[Event, None, None]:
        """Runs every cell; closing the generator early stops the work, and leaves no process behind.

        Yields:
            News as it comes; for every cell exactly one event with an outcome.
        """
