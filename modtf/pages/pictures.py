"""Pictures: a drawn figure with its numbers, its files, and the style of all pictures."""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from modtf.base.files import atomic_path, write_csv

GREY = "#555555"
#: colours of heat maps: white is nothing, darker is more, for any colour vision and in print
HEAT = LinearSegmentedColormap.from_list("heat", ["#ffffff", "#c6dbef", "#6baed6", "#2171b5", "#08306b"])
PNG_DPI = 120
WIDEST = 2400  # pixels: twice the width of a report on a screen
#: vector formats -> the metadata in the file
VECTOR: Mapping[str, dict[str, str | None]] = {
    "svg": {"Date": None, "Creator": "modtf"},
    "pdf": {"CreationDate": None, "Creator": "modtf"},
}


STYLE: Any = {  # a white grid below the marks; sizes fit a column of a paper
    "axes.grid": True, "axes.axisbelow": True, "axes.edgecolor": "#999999", "axes.labelcolor": ".15",
    "axes.linewidth": 1.0, "axes.labelsize": 9.6, "axes.titlesize": 9.6,
    "font.family": ["sans-serif"], "font.size": 9.6,
    "font.sans-serif": ["Arial", "DejaVu Sans", "Liberation Sans", "Bitstream Vera Sans", "sans-serif"],
    "grid.color": "#E3E3E3", "legend.fontsize": 8.8, "legend.title_fontsize": 9.6,
    "lines.linewidth": 1.2, "lines.markersize": 4.8, "lines.solid_capstyle": "round",
    "patch.edgecolor": "w", "patch.force_edgecolor": True, "patch.linewidth": 0.8, "text.color": "black",
    "xtick.color": "#999999", "xtick.labelcolor": "black", "ytick.color": ".15", "ytick.left": False,
    "xtick.labelsize": 8.8, "ytick.labelsize": 8.8, "xtick.major.size": 4.8, "ytick.major.size": 4.8,
    "xtick.major.width": 1.0, "ytick.major.width": 1.0,
    "xtick.minor.size": 3.2, "ytick.minor.size": 3.2, "xtick.minor.width": 0.8, "ytick.minor.width": 0.8,
}  # fmt: skip


class NothingToDraw(Exception):  # noqa: N818  not an error: the report prints the reason as text
    """The results hold nothing for a figure; the message says what is missing, and how to get it."""


class NotMeant(NothingToDraw):
    """The figure belongs to other families: a report omits it."""


@dataclass(frozen=True)
class Picture:
    """A drawn figure, the numbers in it and what to say about it.

    Example of your own figure, in a file that you pass to `--plugin`. Every report then draws it:
        >>> from modtf.analysis import with_kinds
        >>> from modtf.analysis.figures import NothingToDraw, bars, means, register_figure
        >>> @register_figure("seconds")  # doctest: +SKIP
        ... def draw(study, choice):
        ...     rows = with_kinds(study.results.query("measure == 'seconds'"))
        ...     if rows.empty:
        ...         raise NothingToDraw("no model was timed; train with modtf run")
        ...     title = "Seconds of training"
        ...     yield means(study, rows, bars, None, "seconds", title, row="kind", column="num_rules")
    """

    name: str  # the name of its files
    title: str
    note: str  # the models behind it, and what is missing; also printed in the figure
    figure: Figure
    table: pd.DataFrame


Pictures = Iterator[Picture]


def start_at_zero(axes: Axes) -> None:
    """Let the vertical axis begin at 0 if nothing is drawn below; an axis of zeros alone ends at 1."""
    low, high = axes.dataLim.intervaly
    if low >= 0 and high <= 0:
        axes.set_ylim(0, 1)
    elif low >= 0:
        axes.set_ylim(bottom=0)


def png_of(picture: Picture) -> bytes:
    """Return the picture as a PNG."""
    figure, buffer = picture.figure, io.BytesIO()
    canvas, engine = FigureCanvasAgg(figure), figure.get_layout_engine()
    figure.set_dpi(min(PNG_DPI, WIDEST / figure.get_size_inches()[0]))  # text sizes depend on it
    if engine is not None:  # do the layout once: `savefig` would repeat it, and the drawing, for every file
        engine.execute(figure)
        figure.set_layout_engine("none")
    canvas.print_png(buffer, metadata={"Software": None})
    return buffer.getvalue()


def save(picture: Picture, figures: Path, tables: Path, vector: Sequence[str] = ()) -> bytes:
    """Write NAME.png and the formats in `vector` to `figures`, and NAME.csv to `tables`; return the PNG."""
    png = png_of(picture)
    with atomic_path(figures / f"{picture.name}.png") as temporary:
        temporary.write_bytes(png)
    # The same study must give the same bytes, so write no date and no random identifiers.
    with matplotlib.rc_context({"svg.hashsalt": picture.name}):
        for name in vector:
            with atomic_path(figures / f"{picture.name}.{name}") as temporary:
                picture.figure.savefig(temporary, metadata=VECTOR[name])
    write_csv(tables / f"{picture.name}.csv", picture.table)
    return png
