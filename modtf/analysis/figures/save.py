"""Writes a picture's files."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from modtf.analysis.figures.base import Picture
from modtf.files import atomic_path, write_text

PNG_DPI = 150
#: formats without pixels -> what is written into the file about it
VECTOR: Mapping[str, dict[str, str | None]] = {
    "svg": {"Date": None, "Creator": "modtf"},
    "pdf": {"CreationDate": None, "Creator": "modtf"},
}


def png_of(picture: Picture) -> bytes:
    """The picture as a PNG."""
    figure, buffer = picture.figure, io.BytesIO()
    canvas = FigureCanvasAgg(figure)
    _lay_out(figure)
    figure.set_dpi(PNG_DPI)
    canvas.print_png(buffer, metadata={"Software": None})
    return buffer.getvalue()


def save(picture: Picture, figures: Path, tables: Path, vector: Sequence[str] = ()) -> bytes:
    """Writes NAME.png and what `vector` asks for to `figures`, and NAME.csv to `tables`; returns the PNG.

    Args:
        vector: formats of `VECTOR`, each of which takes about as long to draw as the PNG.
    """
    png = png_of(picture)
    with atomic_path(figures / f"{picture.name}.png") as temporary:
        temporary.write_bytes(png)
    # The same study gives the same bytes: no date, no random identifiers.
    with matplotlib.rc_context({"svg.hashsalt": picture.name}):
        for name in vector:
            with atomic_path(figures / f"{picture.name}.{name}") as temporary:
                picture.figure.savefig(temporary, metadata=VECTOR[name])
    write_text(tables / f"{picture.name}.csv", picture.table.to_csv(index=False))
    return png


def _lay_out(figure: Figure) -> None:
    """Places everything, once: `savefig` would do it, and draw all, once more for every file."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")
