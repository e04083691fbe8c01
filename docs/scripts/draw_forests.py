"""Draw tables of docs/data: forest plots in routers.png and study.png, curves of
misrouting in misrouting_curves.png, a grid of verdicts in verdicts.png.

python docs/scripts/draw_forests.py
"""

import collections
import csv
import re
import textwrap
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sources import DOCS, IMAGES, forest, save

#: colours that differ for any colour vision deficiency, and in brightness
VERDICTS = {
    "supported": "#7FC8A9", "contradicted": "#E8A07A", "undecided": "#E6E6E6", "not enough runs": "#F7F7F7",
}  # fmt: skip
PERFECT = collections.defaultdict(str, {"spread 0": "weighted"})  # sampling does not change it
ENDS = re.compile(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)")
ROUTERS = {"regression": "routers_results_cosine_03.csv", "classification": "routers_results_cosine_05.csv"}


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


def draw_verdicts(folder: Path) -> None:
    """Write the grid of the verdicts on the paper's claims, a column for each task type."""
    table = rows_of("study_03.csv")
    claim, *kinds = table[0]
    figure = Figure(figsize=(11, 6.2), layout="constrained")
    axes = figure.subplots()
    for y, row in enumerate(table):
        for x, kind in enumerate(kinds):
            verdict = re.split("[,;]", row[kind].replace("*", ""))[0]
            axes.barh(y, 0.96, 0.92, x - 0.48, color=VERDICTS[verdict])
            axes.text(x, y, verdict, ha="center", va="center", size=7.5)
    axes.set_xticks(range(len(kinds)), [kind.replace(" ", "\n", kind.count(" ")) for kind in kinds], size=8)
    axes.set_yticks(range(len(table)), [textwrap.fill(row[claim], 70) for row in table], size=8)
    axes.set(xlim=(-0.5, len(kinds) - 0.5), ylim=(len(table) - 0.5, -0.5))
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    save(figure, folder / "verdicts.png")


def draw_curves(folder: Path) -> None:
    """Write the loss of the MLP in regression against the wrong share, weighted and sampled."""
    rows = [
        row for row in rows_of("misrouting_misrouting_cosine_07.csv") if row["task type"] == "MLP regression"
    ]
    figure = Figure(figsize=(9.2, 3.2), layout="constrained")
    for axes, where in zip(figure.subplots(1, 2), ("in distribution", "out of distribution"), strict=True):
        for routing, colour, marker in (("weighted", "#0072B2", "o"), ("sampled", "#D55E00", "s")):
            points = {
                float(row["matrix"].split()[1]): list(map(float, ENDS.match(row[where]).groups()))
                for row in rows
                if row["matrix"].startswith("spread") and row["routing"] in (routing, PERFECT[row["matrix"]])
            }
            ends = np.array(list(points.values()))
            reach = np.abs(ends[:, 1:] - ends[:, :1]).T
            axes.errorbar(
                list(points), ends[:, 0], reach, label=routing, color=colour, marker=marker, capsize=2
            )
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set(title=where, xlabel="wrong share of the routing (spread)")
        axes.set_ylabel("loss, % of the spread of the labels\n← better")
        axes.legend(frameon=False)
    save(figure, folder / "misrouting_curves.png")


def draw(folder: Path = IMAGES) -> None:
    """Write all pictures."""
    draw_verdicts(folder)
    draw_curves(folder)
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
