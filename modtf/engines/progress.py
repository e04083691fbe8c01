"""One progress bar for a whole study."""

from collections.abc import Sequence

from tqdm.auto import tqdm

from modtf.cell import Cell
from modtf.engines.base import Event

FORMAT = "{desc} {percentage:3.0f}%|{bar}| {rate_noinv_fmt}, {remaining} left{postfix}"
FINAL = ("finished", "skipped", "failed")  # outcomes after which a cell is not tried again


class StudyProgress:
    """Cells done, members x steps per second and time left, on one line.

    The time left takes all steps for equally dear, so it is too short while the small cells come first.

    Args:
        cells: what is to be done.
        done: how many cells of the study are done already.
        shown: whether there is a bar at all.
    """

    def __init__(self, cells: Sequence[Cell], done: int = 0, shown: bool = True):
        self.done, self.total, self.failed = done, done + len(cells), 0
        self._steps: dict[str, int] = {}
        work = sum(len(cell.members) * cell.protocol.training.steps for cell in cells)
        self._bar = tqdm(
            total=work, unit=" members x steps", unit_scale=True, bar_format=FORMAT, disable=not shown
        )
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
        self._bar.update(len(cell.members) * (steps - known))
        self._describe()

    def say(self, text: str) -> None:
        """Prints a line above the bar."""
        self._bar.write(text)

    def close(self) -> None:
        self._bar.close()

    def _describe(self) -> None:
        failed = f", {self.failed} failed" if self.failed else ""
        self._bar.set_description_str(f"cells {self.done}/{self.total}{failed}", refresh=True)
