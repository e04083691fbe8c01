"""Load a study: a registered one, by name, or a user's file."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import isroutine, signature
from pathlib import Path
from types import ModuleType
from typing import Any

from modtf.base.checks import check_choice, did_you_mean
from modtf.base.plugins import PluginError, line_in, load_plugin
from modtf.base.registry import Registry
from modtf.studies.grid import check_cells
from modtf.tasks.cell import Cell


def check_study(name: str, cells: Any) -> None:
    """Raise `ValueError` unless `cells` can be called."""
    if not callable(cells):
        raise ValueError(
            f"The study {name!r} must be a function cells() that returns cells, received {cells!r}."
        )


#: name -> a function without arguments that returns the cells; its file's docstring describes the study
STUDIES: Registry[Callable[[], Sequence[Cell]]] = Registry("study", check=check_study)


def register_study(name: str) -> Callable[[Any], Any]:
    """Register a function `cells()` by a name (a decorator): `modtf sweep --study=NAME`.

    Example:
        >>> @register_study("mine")  # doctest: +SKIP
        ... def cells():
        ...     return grid(arch="mlp", width=[32, 64]).cells()
    """
    return STUDIES.register(name)


@dataclass(frozen=True)
class StudyFile:
    """The contents of a study file."""

    name: str  # of the study or its file; names folders
    cells: tuple[Cell, ...]
    plugin: str | None = None  # a user's file, which other processes load as a plug-in


def load_study(location: str | Path) -> StudyFile:
    """Load a study.

    Args:
        location: a name in `STUDIES`; or "FILE.py", a Python file that defines `cells` or `CELLS`, a list or
            a function; or "FILE.py:NAME", a function of the file that returns cells. The file may register
            families, routers and so on, as a plug-in does.

    Raises:
        ValueError: if the study does not exist, fails to load, or has cells that cannot run.

    Example:
        >>> len(load_study("paper").cells)
        800
    """
    text = str(location)
    file, _, name = text.partition(".py:")
    plugin = None
    if name or text.endswith(".py"):
        try:
            plugin = load_plugin(f"{file}.py" if name else text)
        except PluginError as error:
            raise ValueError(f"The study {text!r} cannot be loaded. {error}") from error
    elif text not in STUDIES:
        raise ValueError(
            f"The study {text!r} does not exist; expected {', '.join(STUDIES)}, or a file, FILE.py or "
            f"FILE.py:NAME.{did_you_mean(text, STUDIES)}"
        )
    try:
        made = _cells_of(sys.modules[Path(plugin).stem], name) if plugin else STUDIES[text]()
        if not isinstance(made, Sequence) or not all(isinstance(cell, Cell) for cell in made):
            raise ValueError(
                "it must define CELLS, a list of modtf.Cell, or a function cells() that returns one, or be "
                f"given as FILE.py:NAME with such a function; found {type(made).__name__}. The method "
                "cells() of a Grid returns such a list."
            )
        check_cells(made)
    except ValueError as error:
        raise ValueError(f"The study {text!r}: {error}") from error
    except Exception as error:
        place = f"{line_in(error, plugin or '')}: {type(error).__name__}"
        raise ValueError(f"The study {text!r} failed{place}: {error}") from error
    return StudyFile(name or Path(text).stem, tuple(made), plugin)


def _cells_of(module: ModuleType, name: str) -> Any:
    """Return the cells of a study file: of the function `name`, or else of `cells` or `CELLS`, a function or
    a list."""
    if not name:
        made = getattr(module, "cells", getattr(module, "CELLS", None))
        return made() if callable(made) else made
    functions = {
        key: value
        for key, value in vars(module).items()
        if isroutine(value) and value.__module__ == module.__name__ and not signature(value).parameters
    }
    check_choice("function", name, functions)
    return functions[name]()
