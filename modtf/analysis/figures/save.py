"""Writes a picture's files."""

import io
from pathlib import Path

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg

from modtf.analysis.figures.base import Picture

PNG_DPI = 150


def png_of(picture: Picture) -> bytes:
    """The picture as a PNG."""
    FigureCanvasAgg(picture.figure)
    picture.figure.draw_without_rendering()
    picture.figure.set_layout_engine(
        "none"
    )  # what was laid out stays: again, for each file, would take seconds
    buffer = io.BytesIO()
    picture.figure.savefig(buffer, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return buffer.getvalue()


def save(picture: Picture, figures: Path, tables: Path) -> bytes:
    """Writes NAME.png and NAME.svg to `figures` and NAME.csv to `tables`; returns the PNG."""
    png = png_of(picture)
    (figures / f"{picture.name}.png").write_bytes(png)
    # The same study gives the same bytes: no date, no random identifiers.
    with matplotlib.rc_context({"svg.hashsalt": picture.name}):
        picture.figure.savefig(figures / f"{picture.name}.svg", metadata={"Date": None, "Creator": "modtf"})
    picture.table.to_csv(tables / f"{picture.name}.csv", index=False)
    return png
