"""Where a cell is worked on: a place of one process's own, whose content appears in the study all at once.

    OUT/CELL/                          a finished cell, or an unfinished or failed one that nobody works on
    OUT/.modtf/running/CELL~TOKEN/CELL/  a cell that the holder of the lease TOKEN works on
    OUT/.modtf/leases/CELL.NUMBER      its lease

Taking over is renaming the dead owner's place to one's own. That is what fences: an owner that was only
stopped, and wakes up, finds its place gone; it cannot publish, whatever it has checked before, because
publishing is renaming that place, too.
"""

import glob
import os
import shutil
from pathlib import Path

from modtf.engines.lease import LostLeaseError
from modtf.files import atomic_path
from modtf.results.schema import PRIVATE

OWNED = ".owned"  # stands in every place; one that a sleeper's writes have made again lacks it


def leases(out: Path) -> Path:
    """Where the leases of a study stand."""
    return out / PRIVATE / "leases"


class Workplace:
    """The place of the holder of a lease.

    Args:
        out: the folder of the study.
        folder: name of the cell's folder.
        token: of the lease.

    `root` is the folder to write the cell's folder in.
    """

    def __init__(self, out: Path, folder: str, token: str):
        self.published = out / folder
        self.root = out / PRIVATE / "running" / f"{folder}~{token}"
        self.private = self.root / folder

    def take_over(self) -> None:
        """Takes what a dead owner has left: from here on it cannot publish, even if it only slept."""
        self.root.parent.mkdir(parents=True, exist_ok=True)
        for place in self.root.parent.glob(f"{glob.escape(self.published.name)}~*"):
            if (place / OWNED).exists() and not self.root.exists():
                os.rename(place, self.root)
                _unshare(self.private)
            else:
                shutil.rmtree(place, ignore_errors=True)

    def set_aside(self) -> None:
        """Moves a published folder that is damaged out of the way; nothing is ever deleted."""
        self._move_away("damaged")

    def enter(self) -> None:
        """Makes the place, and moves in what was published unfinished, unless there is newer."""
        self.root.mkdir(exist_ok=True)
        (self.root / OWNED).touch()
        if self.published.is_dir() and not self.private.exists():
            os.rename(self.published, self.private)

    def publish(self) -> None:
        """Makes the private folder the cell's, in one step.

        Raises:
            LostLeaseError: if another process has taken the place over, or published before.
        """
        try:
            if not (self.root / OWNED).exists():
                raise FileNotFoundError
            if self.private.is_dir() or not self.root.is_dir():  # else nothing has been done yet
                if self.published.is_dir():  # made by something that asks for no lease
                    self._move_away("replaced")
                os.rename(self.private, self.published)
        except FileNotFoundError:
            raise LostLeaseError(f"Another process has taken over {self.published.name}.") from None
        self.leave()

    def leave(self) -> None:
        """Removes what is left of the place."""
        shutil.rmtree(self.root, ignore_errors=True)

    def _move_away(self, why: str) -> None:
        target = self.published.parent / PRIVATE / why / self.root.name
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(self.published, target)


def _unshare(folder: Path) -> None:
    """Replaces files by copies: who only slept may have some of them open still."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        with atomic_path(path) as temporary:
            shutil.copyfile(path, temporary)
