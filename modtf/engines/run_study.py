"""Runs the unfinished cells of a study with an engine, under one progress bar."""

import contextlib
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modtf.base.plugins import load_plugin
from modtf.base.words import plural, progress_bar
from modtf.engines import Engine
from modtf.engines.state import (
    TRAIN,
    LockedError,
    State,
    error_of,
    holders,
    is_locked,
    is_open,
    locked,
    move_aside,
    other_versions,
    state_of,
    write_asked,
)
from modtf.results.schema import ERROR, MANIFEST, read_json
from modtf.tasks.cell import Cell
from modtf.training.checkpoint_file import checkpoints

POLL = 1.0  # seconds between checks whether other processes still work on their cells
FORMAT = "{desc} {percentage:3.0f}%|{bar}| {remaining} left{postfix}"
SMALL = 32  # below this width a token's cost hardly depends on the width


@dataclass(frozen=True)
class Summary:
    """The result of a study: numbers of cells that were finished now and before, and the failed ones."""

    finished: int
    before: int
    failed: dict[str, str]  # folder of the cell -> reason, in one line


def run_study(
    cells: Sequence[Cell],
    out: str | Path,
    engine: Engine,
    *,
    plugins: Iterable[str] = (),
    retry_failed: bool = False,
    function: str = TRAIN,
    shown: bool = True,
) -> Summary:
    """Run all unfinished cells of a study, or of a shard of it; wait for those of other processes.

    A failed cell does not end the study. The caller closes the engine.

    Args:
        cells: the cells.
        out: the folder of the study.
        engine: what runs the cells.
        plugins: files and modules that other processes load first.
        retry_failed: whether cells that failed before run again.
        function: reference to a `CellFunction`.
        shown: whether to show the progress bar.

    Raises:
        StopError: if the disk is full, its file system has no locks, or workers cannot begin.
        ValueError: if a folder belongs to another cell.
    """
    states = {cell.folder: state_of(cell, out) for cell in cells}
    for line in remarks(states, retry_failed):
        print(line, flush=True)
    before = sum(state.name == "finished" for state in states.values())
    for cell in cells:
        name, state = cell.folder, states[cell.folder]
        if state.name == "damaged":
            with contextlib.suppress(LockedError), locked(out, name):
                if state_of(cell, out).name == "damaged":  # another process may have repaired it
                    move_aside(Path(out, name))
        elif state.name == "failed" and retry_failed:
            Path(out, name, ERROR).unlink(missing_ok=True)
    todo = [cell for cell in cells if is_open(out, cell.folder)]
    write_asked(todo, out)
    plugins = [load_plugin(plugin) for plugin in plugins]  # absolute, for other processes
    with contextlib.closing(StudyProgress(todo, out, len(cells) - len(todo), shown)) as progress:
        if todo and all(is_locked(out, cell.folder) for cell in todo):
            progress.say(f"{plural(len(todo), 'cell')} in use by other processes; waiting for them.")
        while progress.left:
            for _ in engine.run([*progress.left.values()], str(Path(out).absolute()), plugins, function):
                progress.look()
            progress.look()
            while progress.left and all(is_locked(out, name) for name in progress.left):
                time.sleep(POLL)
                progress.look()
    errors = {cell.folder: error_of(Path(out, cell.folder)) for cell in cells}
    failed = {name: reason for name, reason in errors.items() if reason}
    return Summary(len(cells) - before - len(failed), before, failed)


def remarks(states: dict[str, State], retry_failed: bool) -> list[str]:
    """Return what a reader should know about the cells on disk."""
    lines = other_versions(states.values())
    lines += filter(None, (state.remark(name) for name, state in states.items()))
    failed = sum(state.name == "failed" for state in states.values())
    if failed and not retry_failed:
        lines.append(f"{plural(failed, 'cell')} failed before and not run again; --retry_failed runs them.")
    return lines


class StudyProgress:
    """Finished cells, the time left, and members x steps per second, on one line. All is read from disk.

    The cost of a token is taken as proportional to the square of the width, plus a constant. Time left and
    speed are averages over the whole run, because recent values reflect one kind of cell, or compilation.
    They leave out the steps that a resumed cell had before.
    """

    def __init__(self, cells: Sequence[Cell], out: str | Path, done: int = 0, shown: bool = True):
        self.out, self.left = Path(out), {cell.folder: cell for cell in cells}
        self.done, self.total, self.failed = done, done + len(cells), 0
        self._steps = dict.fromkeys(self.left, 0)
        self._resumed = {name for name in self.left if checkpoints(self.out / name)}
        self._begun, self._member_steps, self._before = time.monotonic(), 0, 0
        work = sum(_step_work(cell) * cell.protocol.training.steps for cell in cells)
        how: Any = {"bar_format": FORMAT, "smoothing": 0, "shown": shown, "delay": 0}
        self._bar = progress_bar(total=work, desc=f"cells {done}/{self.total}", **how)
        self._in_file = shown and not sys.stderr.isatty()
        self._describe(0)
        self.say, self.close = self._bar.write, self._bar.close

    def look(self) -> None:
        """Show what is new on disk."""
        holding = holders(self.out)
        for name, cell in [*self.left.items()]:
            if is_open(self.out, name):
                self._count(cell, holding.get(name, ("", 0))[1])
                continue
            del self.left[name]
            self.done += 1
            self._count(cell, cell.protocol.training.steps)
            if news := self._end_of(name):
                self.say(f"{name} {news}")
            elif self._in_file:  # a line for every cell
                print(f"{name} finished", file=sys.stderr, flush=True)
        self._describe(sum(name in self.left and not steps for name, (_, steps) in holding.items()))

    def _end_of(self, name: str) -> str:
        """Return what a reader should know of a cell that has ended."""
        if reason := error_of(self.out / name):
            self.failed += 1
            return f"failed; {reason}"
        if lost := read_json(self.out / name / MANIFEST).get("diverged"):
            one = "task {data_seed}, seed {seed} at step {step}"
            return f"finished; diverged: {'; '.join(one.format(**member) for member in lost)}"
        return ""

    def _count(self, cell: Cell, steps: int) -> None:
        new = max(0, steps - self._steps[cell.folder])
        self._steps[cell.folder] += new
        self._bar.update(_step_work(cell) * new)
        if new and cell.folder in self._resumed:
            self._resumed.remove(cell.folder)
            self._before += _step_work(cell) * new
            self._bar.initial = self._before  # tqdm's speed leaves it out
        else:
            self._member_steps += len(cell.members) * new

    @property
    def speed(self) -> float:
        """Members x steps per second."""
        return self._member_steps / max(time.monotonic() - self._begun, 1e-9)

    def _describe(self, compiling: int) -> None:
        states = {"failed": self.failed, "compiling": compiling}
        more = "".join(f", {count} {name}" for name, count in states.items() if count)
        self._bar.set_postfix_str(f"{self.speed:,.0f} members x steps/s", refresh=False)
        self._bar.set_description_str(f"cells {self.done}/{self.total}{more}")


def _step_work(cell: Cell) -> int:
    """Return the approximate cost of a step of all members, in arbitrary units, without building a model."""
    return len(cell.members) * cell.step_tokens * (cell.width**2 + SMALL**2)
