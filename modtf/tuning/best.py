"""What was found for a cell, among the searches of a tuning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modtf.analysis.text import plural
from modtf.cell import Cell
from modtf.studies.point import OPTIONS
from modtf.tuning.search import LEARNING_RATE, Search, find_searches, in_words, known_options, with_values
from modtf.tuning.trials import best_trial, trials_of


@dataclass(frozen=True)
class Best:
    """The best trial of a search."""

    search: Search
    values: Mapping[str, Any]  # of all that was tuned, and the learning rate in any case
    objective: float
    trials: int  # finished ones that it is the best of

    def __str__(self) -> str:
        return f"{in_words(self.values)} (best of {plural(self.trials, 'trial')}, {self.search.name})"


def use_best(out: str | Path, cells: Sequence[Cell]) -> tuple[list[Cell], list[Best]]:
    """The cells with the values that were found for them, and what was found.

    Searches count that tuned a cell's kind of task, variant, architecture and options, be these given or left
    at their defaults; where several did, those of its number of rules and width.

    Args:
        out: what was --out of `launch/tune.py`.
        cells: which; their protocols and members may differ from those of the searches.

    Raises:
        FileNotFoundError: if there is no search.
        ValueError: if nothing was found for a cell, or by searches that cannot be compared.

    Example:
        >>> cells, found = use_best("runs/tuning", cells)  # doctest: +SKIP
    """
    known = [(search, _best(out, search)) for search in find_searches(out)]
    found = [_choose(out, known, cell) for cell in cells]
    return [with_values(cell, best.values) for cell, best in zip(cells, found, strict=True)], found


def _best(out: str | Path, search: Search) -> Best | None:
    trials = [trial for trial in trials_of(search, out) if trial.status == "finished"]
    trial = best_trial(trials)
    if trial is None:
        return None
    values = {LEARNING_RATE: search.base.protocol.training.learning_rate, **trial.values}
    return Best(search, values, trial.objective, len(trials))


def _choose(out: str | Path, known: Sequence[tuple[Search, Best | None]], cell: Cell) -> Best:
    of_variant = [best for search, best in known if _kind(search.base) == _kind(cell)]
    found = [best for best in of_variant if best is not None]
    chosen = [best for best in found if _size(best.search.base) == _size(cell)] or found
    # what the objectives of two searches must share to be compared
    bases = [best.search.base for best in chosen]
    ways = {(_size(base), base.members, base.protocol.replace(learning_rate=1.0)) for base in bases}
    if len(ways) == 1:
        return min(chosen, key=lambda best: best.objective)
    words = _in_words(cell)
    if chosen:
        names = ", ".join(best.search.name for best in chosen)
        said = f"{words} was tuned in ways that cannot be compared ({names}). Tune it at R = "
        said += f"{cell.task.num_rules} and width {cell.width}, or move all but one of these folders away."
    elif of_variant:
        said = f"no trial of {words} has finished, or all diverged. Give the same launch/tune.py command "
        said += "again, or widen its space."
    else:
        names = ", ".join(dict.fromkeys(_in_words(search.base) for search, _ in known))
        said = f"nothing was found for {words}, only for {names}. Tune it first, with launch/tune.py."
    raise ValueError(f"--best={out}: {said}")


def _kind(cell: Cell) -> tuple[Any, ...]:
    """What two cells share where what was found for one is meant for the other."""
    given = [(space, name, value) for space in OPTIONS for name, value in getattr(cell, space).items()]
    chosen = sorted(one for one in given if one[1:] not in known_options(cell, one[0]).items())
    return cell.task.kind, cell.variant, cell.architecture, chosen


def _size(cell: Cell) -> tuple[int, int]:
    return cell.task.num_rules, cell.width


def _in_words(cell: Cell) -> str:
    options = in_words({**cell.router, **cell.model})
    other = f" with {cell.architecture}" if cell.architecture else ""
    return f"{cell.variant} of {cell.task.kind}{other}" + (f" ({options})" if options else "")
