"""`--best=FOLDER`: cells with what tuning found for them."""

from collections.abc import Sequence

from absl import flags

from modtf.cell import Cell
from modtf.launch.settings import says_learning_rate

SHOWN = 8  # things found that are listed


def define_best(values: flags.FlagValues) -> None:
    """Adds --best."""
    flags.DEFINE_string(
        "best",
        None,
        "Folder of launch/tune.py: every variant has the learning rate and options that were found for it.",
        flag_values=values,
    )


def with_best(cells: Sequence[Cell], given: flags.FlagValues) -> list[Cell]:
    """The cells, if --best is given with what was found for them, which is printed.

    Raises:
        FileNotFoundError: if the folder holds no search.
        ValueError: if nothing was found for a cell, or --learning_rate says otherwise.
    """
    if given.best is None:
        return list(cells)
    from modtf.tuning import use_best  # pandas takes time

    found, best = use_best(given.best, cells)
    rates = [[cell.protocol.training.learning_rate for cell in some] for some in (cells, found)]
    if says_learning_rate(given) and rates[0] != rates[1]:
        raise ValueError("--best and a learning rate cannot both be given: one of them would not count.")
    lines = list(
        dict.fromkeys(
            f"{cell.variant} of {cell.task.kind}: {one}" for cell, one in zip(cells, best, strict=True)
        )
    )
    print("\n".join([*lines[:SHOWN], *([f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else [])]))
    return found
