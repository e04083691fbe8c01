"""Checks of cells before anything runs."""

from collections.abc import Callable, Sequence

from modtf.cell import Cell
from modtf.checks import check_choice
from modtf.models.architectures import ARCHITECTURES
from modtf.models.architectures.sizes import check_size, check_width
from modtf.models.options import check_known_options
from modtf.models.own import MODELS, options_of_model
from modtf.models.routers import ROUTERS
from modtf.words import plural

SHOWN = 5


def check_cells(cells: Sequence[Cell]) -> None:
    """Raise `ValueError` for cells that cannot be built, and for duplicates. This imports no TensorFlow.

    Options of routers and architectures are checked only when a cell is built.
    """
    if not cells:
        raise ValueError("The study has no cells. Relax its filters or choices.")
    _refuse(cells, check_cell, "{label}: {error}")
    seen: dict[str, Cell] = {}
    for cell in cells:
        if seen.setdefault(cell.folder, cell) is not cell:
            raise ValueError(f"The study holds the cell {cell.label} twice. Leave one of them out.")


def check_cell(cell: Cell) -> None:
    """Raise `ValueError` for a cell that cannot be built. This imports no TensorFlow."""
    cell.task.family.check_variant(cell.task, cell.variant)
    if cell.runs in MODELS:
        check_known_options(f"the model {cell.variant!r}", cell.model, options_of_model(cell.runs))
        return
    if cell.runs not in ROUTERS:
        names = [variant.name for variant in cell.task.family.variants]
        check_choice("variant", cell.variant, dict.fromkeys([*names, *ROUTERS, *MODELS]))
    check_choice("architecture", cell.network, ARCHITECTURES)
    if cell.network == cell.task.family.architecture:
        _, options = cell.task.family.variant(cell.variant).options(cell.router, cell.model)
        cell.task.family.check_model(cell.task, options)
    check_width(cell.network, cell.width, cell.task.num_rules, cell.router.get("modules"))


def check_memory(cells: Sequence[Cell]) -> None:
    """Raise `ValueError` for cells that cannot fit into the memory of this machine."""
    _refuse(cells, check_size, "{error}")


def _refuse(cells: Sequence[Cell], check: Callable[[Cell], None], words: str) -> None:
    reasons = []
    for cell in cells:
        try:
            check(cell)
        except ValueError as error:
            reasons.append(words.format(label=cell.label, error=error))
    if reasons:
        lines = [f"  {reason}" for reason in reasons[:SHOWN]]
        more = [f"  and {len(reasons) - SHOWN} more"] if len(reasons) > SHOWN else []
        raise ValueError(
            "\n".join([f"{len(reasons)} of {plural(len(cells), 'cell')} cannot run:", *lines, *more])
        )
