"""From measured steps to the whole paper: an estimate, as most of its cells are not measured."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from modtf.studies import load_study

MEMBERS, RULES = 25, 8  # of the rows that stand for all


def paper_hours(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Hours of the device that training the paper's 800 cells takes, by precision; evaluation not counted.

    A step is taken for as dear as one of 25 members at R = 8, with data from the device and the faster form
    of the kernels. Between two measured widths its time is a straight line in the logarithms of both, and
    beyond them nothing is known: a precision is left out unless the smallest and the largest width of every
    family were measured.

    Args:
        rows: of measured cells.
    """
    steps: dict[tuple[str, int], int] = defaultdict(int)
    for cell in load_study("paper").cells:
        steps[cell.task.arch, cell.width] += cell.protocol.training.steps
    found = {}
    for precision in dict.fromkeys(row["precision"] for row in rows):
        measured = _steps_measured([row for row in rows if row["precision"] == precision])
        if all(width in _reach(measured.get(arch, {})) for arch, width in steps):
            seconds = (count * _step(measured[arch], width) for (arch, width), count in steps.items())
            found[precision] = sum(seconds) / 3600
    return found


def _steps_measured(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, float]]:
    """Family -> width -> seconds."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for row in rows:
        if (row["members"], row["num_rules"], row["data"]) == (MEMBERS, RULES, "device"):
            before = found[row["arch"]].get(row["width"], float("inf"))
            found[row["arch"]][row["width"]] = min(before, 1e-3 * row["step_ms"])
    return found


def _reach(measured: Mapping[int, float]) -> range:
    return range(min(measured, default=0), max(measured, default=-1) + 1)


def _step(measured: Mapping[int, float], width: int) -> float:
    widths = sorted(measured)
    times = np.log([measured[known] for known in widths])
    return float(np.exp(np.interp(np.log(width), np.log(widths), times)))
