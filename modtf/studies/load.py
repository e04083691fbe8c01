"""Finds a study: one of the tree by name, or a user's file."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from modtf.cell import Cell
from modtf.plugins import PluginError, load_plugin
from modtf.studies.check import check_cells

STUDIES = ("testing", "quick", "first", "routers", "paper")  # files of this folder


@dataclass(frozen=True)
class StudyFile:
    """What a study file says."""

    name: str  # of the file, for folders
    description: str  # its docstring
    cells: tuple[Cell, ...]
    plugin: str | None = None  # the file of a user's, which other processes load as a plug-in


def load_study(location: str | Path) -> StudyFile:
    """Loads a study.

    Args:
        location: one of `STUDIES`, or the path of a Python file that defines `CELLS`, or a function
            `cells()`; it may register families, routers and so on, as a plug-in does.

    Raises:
        ValueError: if there is none, it fails, or its cells cannot run.

    Example:
        >>> len(load_study("paper").cells)
        800
    """
    text = str(location)
    if text in STUDIES:
        module, plugin = import_module(f"modtf.studies.{text}"), None
    elif text.endswith(".py"):
        try:
            plugin = load_plugin(text)
        except PluginError as error:
            raise ValueError(f"The study {text!r} cannot be loaded. {error}") from error
        module = sys.modules[Path(plugin).stem]
    else:
        raise ValueError(
            f"There is no study {text!r}; expected {', '.join(STUDIES)}, or the path of a file ending in .py."
        )
    try:
        cells = _cells(module)
        check_cells(cells)
    except ValueError as error:
        raise ValueError(f"The study {text!r}: {error}") from error
    return StudyFile(Path(text).stem, (module.__doc__ or "").strip(), tuple(cells), plugin)


def _cells(module: ModuleType) -> Sequence[Cell]:
    found = module.cells() if hasattr(module, "cells") else getattr(module, "CELLS", None)
    if not isinstance(found, Sequence) or not all(isinstance(cell, Cell) for cell in found):
        raise ValueError(
            f"it must define CELLS, a list of modtf.Cell, or a function cells() that returns one; "
            f"found {type(found).__name__}. A Grid becomes one by its method cells()."
        )
    return found
