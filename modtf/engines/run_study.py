"""Runs the unfinished cells of a study with an engine, under one progress bar."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

from modtf.base.words import plural, progress_bar
from modtf.engines.lock import is_locked
from modtf.engines.state import State, state_of, write_asked
from modtf.engines.work import Engine, Event, Outcome, Work, nothing_to_do
from modtf.tasks.cell import Cell

POLL = 1.0  # seconds between checks whether other processes still work on their cells
FORMAT = "{desc} {percentage:3.0f}%|{bar}| {remaining} left{postfix}"
SMALL = 32  # below this width a token's cost hardly depends on the width


@dataclass
class Summary:
    """The result of a study: folder of the cell -> outcome."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    stopped: str = ""  # why the study stopped early; "" if it did not

    @property
    def counts(self) -> Counter[str]:
        return Counter(outcome.status for outcome in self.outcomes.values())

    @property
    def failed(self) -> dict[str, str]:
        """Folder of the cell -> reason, in one line."""
        return {name: o.reason for name, o in self.outcomes.items() if o.status == "failed"}

    @property
    def is_good(self) -> bool:
        """Return whether every cell is finished."""
        return not self.stopped and set(self.counts) <= {"finished", "skipped"}


def run_study(cells: Sequence[Cell], work: Work, engine: Engine, *, shown: bool = True) -> Summary:
    """Run all unfinished cells of a study, or of a shard of it; wait for those of other processes.

    A failed cell does not end the study; a full disk does.
    """
    states = {cell.folder: state_of(cell, work.out) for cell in cells}
    for line in remarks(states, work):
        print(line)
    done = {name: nothing_to_do(state, work) for name, state in states.items()}
    summary = Summary({name: outcome for name, outcome in done.items() if outcome})
    todo = [cell for cell in cells if cell.folder not in summary.outcomes]
    write_asked(todo, work.out)
    progress = StudyProgress(todo, len(cells) - len(todo), shown)
    try:
        while todo and not summary.stopped:
            todo = _one_round(todo, work, engine, progress, summary)
            if todo and not summary.stopped:
                progress.say(
                    f"{plural(len(todo), 'cell')} left, in use by other processes; waiting for them."
                )
                while all(is_locked(work.out, cell.folder) for cell in todo):
                    time.sleep(POLL)
    finally:
        progress.close()
    return summary


def remarks(states: dict[str, State], work: Work) -> list[str]:
    """Return what a reader should know about the cells on disk."""
    other = Counter(s.version for s in states.values() if s.name == "finished" and s.is_of_another_version)
    lines = [
        f"{plural(count, 'cell')} finished by modtf {version}, whose numbers may differ; they are kept. To "
        "run them again, choose another --out."
        for version, count in sorted(other.items())
    ]
    lines += filter(None, (state.remark(name) for name, state in states.items()))
    failed = sum(state.name == "failed" for state in states.values())
    if failed and not work.retry_failed:
        lines.append(f"{plural(failed, 'cell')} failed before and not run again; --retry_failed runs them.")
    return lines


def _one_round(
    todo: Sequence[Cell], work: Work, engine: Engine, progress: "StudyProgress", summary: Summary
) -> list[Cell]:
    """Give the cells to the engine; return those to check again, which other processes hold."""
    again: list[Cell] = []
    with closing(engine.run(todo, work)) as events:
        for event in events:
            progress(event)
            if event.outcome is None:
                continue
            if event.outcome.status == "busy":
                again.append(event.cell)
            elif event.outcome.status == "stopped":
                summary.stopped = event.outcome.reason
                break
            else:
                summary.outcomes[event.cell.folder] = event.outcome
                if event.outcome.reason:
                    progress.say(f"{event.cell.folder} {event.outcome.status}; {event.outcome.reason}")
    return again


class StudyProgress:
    """Finished cells, the time left, and members x steps per second, on one line.

    The cost of a token is taken as proportional to the square of the width, plus a constant. Time left and
    speed are averages over the whole run, because recent values reflect one kind of cell, or compilation.
    """

    def __init__(self, cells: Sequence[Cell], done: int = 0, shown: bool = True):
        self.done, self.total, self.failed = done, done + len(cells), 0
        self._steps = dict.fromkeys((cell.folder for cell in cells), 0)
        self._begun, self._member_steps = time.monotonic(), 0
        work = sum(_step_work(cell) * cell.protocol.training.steps for cell in cells)
        self._bar = progress_bar(total=work, bar_format=FORMAT, smoothing=0, shown=shown)
        self._describe()
        self.say, self.close = self._bar.write, self._bar.close

    def __call__(self, event: Event) -> None:
        """Show news of a cell."""
        cell, known = event.cell, self._steps[event.cell.folder]
        steps = max(known, event.steps)
        if event.outcome is not None:
            final = event.outcome.status in ("finished", "skipped", "failed")
            steps = cell.protocol.training.steps if final else known
            self.done += final
            self.failed += event.outcome.status == "failed"
        self._steps[cell.folder] = steps
        self._member_steps += len(cell.members) * (steps - known)
        self._describe()
        self._bar.update(_step_work(cell) * (steps - known))

    @property
    def speed(self) -> float:
        """Members x steps per second."""
        return self._member_steps / max(time.monotonic() - self._begun, 1e-9)

    def _describe(self) -> None:
        failed = f", {self.failed} failed" if self.failed else ""
        self._bar.set_postfix_str(f"{self.speed:,.0f} members x steps/s", refresh=False)
        self._bar.set_description_str(f"cells {self.done}/{self.total}{failed}", refresh=False)


def _step_work(cell: Cell) -> int:
    """Return the approximate cost of a step of all members, in arbitrary units, without building a model."""
    return len(cell.members) * cell.step_tokens * (cell.width**2 + SMALL**2)
