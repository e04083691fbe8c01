"""Writes a picture's files."""

import io
from pathlib import Path

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from modtf.analysis.figures.base import Picture

PNG_DPI = 150


def png_of(picture: Picture) -> bytes:
    """The picture as a PNG."""
    figure, buffer = picture.figure, io.BytesIO()
    canvas = FigureCanvasAgg(figure)
    _lay_out(figure)
    figure.set_dpi(PNG_DPI)
    canvas.print_png(buffer, metadata={"Software": None})
    return buffer.getvalue()


def save(picture: Picture, figures: Path, tables: Path) -> bytes:
    """Writes NAME.png and NAME.svg to `figures` and NAME.csv to `tables`; returns the PNG."""
    png = png_of(picture)
    (figures / f"{picture.name}.png").write_bytes(png)
    # The same study gives the same bytes: no date, no random identifiers.
    with matplotlib.rc_context({"svg.hashsalt": picture.name}):
        canvas = FigureCanvasSVG(picture.figure)
        canvas.print_svg(figures / f"{picture.name}.svg", metadata={"Date": None, "Creator": "modtf"})
    picture.table.to_csv(tables / f"{picture.name}.csv", index=False)
    return png


def _lay_out(figure: Figure) -> None:
    """Places everything, once: `savefig` would do it, and draw all, once more for every file."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")
