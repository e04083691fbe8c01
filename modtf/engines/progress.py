"""One progress bar for a whole study."""

import time
from collections.abc import Sequence

from tqdm.auto import tqdm

from modtf.cell import Cell
from modtf.engines.work import Event

FORMAT = "{desc} {percentage:3.0f}%|{bar}| {remaining} left{postfix}"
FINAL = ("finished", "skipped", "failed")  # outcomes after which a cell is not tried again
SMALL = 32  # width below which a token costs about the same whatever the width


class StudyProgress:
    """Cells done, the time left, members x steps per second, on one line.

    Cells differ: the time left takes a token for as dear as the square of the width, from a floor on. It goes
    by the whole run, as the speed does, since the latest is that of one kind of cell, or of compiling.
    `launch/sweep.py --dry_run` measures instead.

    Args:
        cells: what is to be done.
        done: how many cells of the study are done already.
        shown: whether there is a bar at all.
    """

    def __init__(self, cells: Sequence[Cell], done: int = 0, shown: bool = True):
        self.done, self.total, self.failed = done, done + len(cells), 0
        self._steps: dict[str, int] = {}
        self._begun, self._member_steps = time.monotonic(), 0
        work = sum(_step_work(cell) * cell.protocol.training.steps for cell in cells)
        self._bar = tqdm(total=work, bar_format=FORMAT, smoothing=0, disable=not shown)
        self._describe()

    def __call__(self, event: Event) -> None:
        """Takes news in."""
        cell = event.cell
        known = self._steps.get(cell.folder, 0)
        if event.outcome is None:
            steps = max(known, event.steps)
        else:
            final = event.outcome.status in FINAL
            steps = cell.protocol.training.steps if final else known
            self.done += final
            self.failed += event.outcome.status == "failed"
        self._steps[cell.folder] = steps
        self._member_steps += len(cell.members) * (steps - known)
        self._bar.update(_step_work(cell) * (steps - known))
        self._describe()

    def say(self, text: str) -> None:
        """Prints a line above the bar."""
        self._bar.write(text)

    def close(self) -> None:
        self._bar.close()

    @property
    def speed(self) -> float:
        """Members x steps per second."""
        return self._member_steps / max(time.monotonic() - self._begun, 1e-9)

    def _describe(self) -> None:
        failed = f", {self.failed} failed" if self.failed else ""
        self._bar.set_postfix_str(f"{self.speed:,.0f} members x steps/s", refresh=False)
        self._bar.set_description_str(f"cells {self.done}/{self.total}{failed}", refresh=True)


def _step_work(cell: Cell) -> int:
    """What a step of all members costs, about, in units of its own; no model has to be built for it."""
    return len(cell.members) * cell.step_tokens * (cell.width**2 + SMALL**2)
