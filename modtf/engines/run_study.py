"""Runs a study: whatever of its cells is not finished, with an engine."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from modtf.cell import Cell
from modtf.engines.lock import is_held, one_machine_only
from modtf.engines.progress import StudyProgress
from modtf.engines.state import State, state_of
from modtf.engines.work import Engine, Outcome, Work

POLL = 1.0  # seconds between looks whether other processes still work on their cells


@dataclass
class Summary:
    """How a study ended: folder of the cell -> outcome."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    stopped: str = ""  # why it could not go on

    @property
    def counts(self) -> Counter[str]:
        return Counter(outcome.status for outcome in self.outcomes.values())

    @property
    def failed(self) -> dict[str, str]:
        """Folder of the cell -> reason, in one line."""
        return {name: o.reason for name, o in self.outcomes.items() if o.status == "failed"}

    @property
    def is_good(self) -> bool:
        """Whether every cell is finished."""
        return not self.stopped and set(self.counts) <= {"finished", "skipped"}


def run_study(
    cells: Sequence[Cell],
    work: Work,
    engine: Engine,
    *,
    shown: bool = True,
    say: Callable[[str], None] = print,
) -> Summary:
    """Runs all cells that are not finished, and waits for those that other processes work on.

    Args:
        cells: the study, or a shard of it.
        work: where and how.
        engine: who runs them.
        shown: whether to show a progress bar.
        say: is given what is worth knowing, in lines.

    Returns:
        How every cell ended. A failed cell does not end the study; a full disk does.
    """
    states = {cell.folder: state_of(cell, work.out) for cell in cells}
    for line in [*remarks(states, work), one_machine_only(work.out) if engine.is_here else None]:
        if line is not None:
            say(line)
    summary, todo = Summary(), list[Cell]()
    for cell in cells:
        state = states[cell.folder]
        if state.name == "finished":
            summary.outcomes[cell.folder] = Outcome("skipped")
        elif state.name == "failed" and not work.retry_failed:
            summary.outcomes[cell.folder] = Outcome("failed", state.reason)
        else:
            todo.append(cell)
    progress = StudyProgress(todo, len(cells) - len(todo), shown)
    try:
        while todo and not summary.stopped:
            todo = _one_round(todo, work, engine, progress, summary)
            if todo and not summary.stopped:
                progress.say(f"{_cells(len(todo))} left, which other processes work on; waiting for them.")
                _wait(todo, work)
    finally:
        progress.close()
    return summary


def remarks(states: dict[str, State], work: Work) -> list[str]:
    """What a reader should know of what is on disk already."""
    found = []
    other = Counter(s.version for s in states.values() if s.name == "finished" and s.is_of_another_version)
    for version, count in sorted(other.items()):
        found.append(
            f"{_cells(count)} finished by modtf {version}, whose numbers may differ: kept, not run again. "
            "For new ones take another --out."
        )
    found += filter(None, (state.remark(name) for name, state in states.items()))
    failed = sum(state.name == "failed" for state in states.values())
    if failed and not work.retry_failed:
        found.append(f"{_cells(failed)} failed before and left alone; --retry_failed runs them again.")
    return found


def _one_round(
    todo: Sequence[Cell], work: Work, engine: Engine, progress: StudyProgress, summary: Summary
) -> list[Cell]:
    """Gives the cells to the engine; returns those to look at again."""
    again: list[Cell] = []
    with closing(engine.run(todo, work)) as events:
        for event in events:
            progress(event)
            if event.outcome is None:
                continue
            if event.outcome.status == "busy":
                again.append(event.cell)
                continue
            if event.outcome.status == "stopped":
                summary.stopped = event.outcome.reason
                break
            summary.outcomes[event.cell.folder] = event.outcome
            if event.outcome.reason:
                progress.say(f"{event.cell.folder} {event.outcome.status}; {event.outcome.reason}")
    return again


def _wait(cells: Sequence[Cell], work: Work) -> None:
    """Until one of them is finished, or nobody works on it any longer."""
    while all(is_held(work.out, cell.folder) for cell in cells):
        time.sleep(POLL)


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"
