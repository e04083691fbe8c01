"""Runs searches to their end."""

from collections.abc import Callable, Sequence
from pathlib import Path

from modtf.cell import Cell
from modtf.engines.shard import shard_of
from modtf.engines.study import Summary
from modtf.tuning import LISTS
from modtf.tuning.search import Search, settings_of
from modtf.tuning.trials import trials_of


def run_searches(
    searches: Sequence[Search],
    out: Path,
    run: Callable[[Sequence[Cell]], Summary],
    limit: int | None = None,
    *,
    shard: str | None = None,
    retry_failed: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Runs searches by one oracle, or goes on with them; returns when their trials have ended.

    The trials of grids and random searches are one list of cells; others choose a trial by those before it.

    Args:
        searches: what is tuned.
        out: the folder of the tuning.
        run: runs cells, `modtf.engines.study.run_study` with an engine; it decides itself about those that
            failed before.
        limit: of the number of trials of each search.
        shard: "i/n", the part of the trials to run; for lists.
        retry_failed: whether trials that failed are tried again, as `run` does.
        say: is given what is worth knowing, in lines.

    Raises:
        ValueError: if a search cannot go on: a full disk, say.
    """
    if searches[0].oracle not in LISTS:
        from modtf.tuning.oracles import run_search  # KerasTuner takes time

        for search in searches:
            run_search(search, out, run, limit, retry_failed, say)
        return
    cells: dict[str, Cell] = {}
    for search in searches:
        known = len(trials_of(search, out))
        settings = settings_of(search, limit if limit is None else max(limit, known))
        search.write(out, settings)
        cells |= {cell.folder: cell for cell in map(search.cell_of, settings)}
    summary = run(list(cells.values()) if shard is None else shard_of(list(cells.values()), shard))
    if summary.stopped:
        raise ValueError(summary.stopped)
