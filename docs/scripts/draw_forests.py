"""Draw ratios of docs/data as forest plots: docs/images/routers.png and docs/images/study.png.

python docs/scripts/draw_forests.py
"""

import csv
import re
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sources import DOCS, IMAGES, forest, save

ENDS = re.compile(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)")
ROUTERS = {
    "regression": "routers_results_cosine_03.csv",
    "classification": "routers_results_cosine_05.csv",
}


def rows_of(name: str) -> list[dict[str, str]]:
    """Return the rows of a table of docs/data."""
    lines = (DOCS / "data" / name).read_text("utf-8").splitlines()
    return list(csv.DictReader(lines[1:]))


def ratios(axes: Axes, texts: dict[str, str], label: str, ticks: tuple[float, ...]) -> None:
    """Draw ratios with their intervals, written as "2.15 (1.76 to 2.62)"."""
    forest(axes, {name: [*map(float, ENDS.match(text).groups())] for name, text in texts.items()})
    axes.axvline(1, color="#999999", lw=0.8)
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(f"{label}\n← better")


def draw(folder: Path = IMAGES) -> None:
    """Write both pictures."""
    figure = Figure(figsize=(9.2, 3.7), layout="constrained")
    for axes, (setting, name) in zip(figure.subplots(1, 2, sharey=True), ROUTERS.items(), strict=True):
        shown = {row["router"]: row["/ perfect, cosine, in"] for row in rows_of(name)}
        what = "loss" if setting == "regression" else "error"
        ticks = (1, 10, 100) if setting == "regression" else (1, 2, 5, 10)
        ratios(axes, shown, f"{what} / perfect routing's {what}", ticks)
        axes.set_title(f"MLP {setting}", size=10)
    save(figure, folder / "routers.png")
    figure = Figure(figsize=(11, 2.4), layout="constrained")
    kinds = ("MLP regression", "MLP classification", "RNN classification")
    rows = [row for row in rows_of("study_study_cosine_01.csv") if row["R"] == "8"]
    for axes, kind in zip(figure.subplots(1, 3, sharey=True), kinds, strict=True):
        ratios(
            axes,
            {row["variants"]: row["cosine, in"] for row in rows if row["task type"] == kind},
            "ratio of losses" if "regression" in kind else "ratio of errors",
            (0.01, 0.1, 1) if kind == "MLP regression" else (0.2, 0.5, 1, 2),
        )
        axes.set_title(kind, size=10)
    save(figure, folder / "study.png")


if __name__ == "__main__":
    draw()
