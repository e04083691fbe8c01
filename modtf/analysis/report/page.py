"""The report as one HTML page that needs nothing else: figures and style stand inside it."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

MAX_ROWS = 60  # of a table on the page; the CSV file has all


@dataclass(frozen=True)
class Table:
    """A table as the page shows it; a long one is cut, and says so."""

    columns: list[str]
    rows: list[list[str]]
    length: int  # of the whole
    file: str = ""  # that has all of it, beside the page

    @property
    def cut(self) -> bool:
        return self.length > len(self.rows)

    @classmethod
    def of(cls, frame: pd.DataFrame, file: str = "") -> "Table":
        """Reads a frame."""
        columns = [str(name).replace("_", " ") for name in frame]
        shown = frame.head(MAX_ROWS).itertuples(index=False, name=None)
        return cls(columns, [[_text(cell) for cell in row] for row in shown], len(frame), file)


@dataclass(frozen=True)
class Shown:
    """A picture inside the page."""

    data: str  # base64 of the PNG
    title: str
    note: str
    files: str  # beside the page
    width: int  # in pixels, unless the window is narrower

    @classmethod
    def of(cls, picture: Any, png: bytes, files: str) -> "Shown":
        """Reads a `Picture` and its PNG."""
        inches = float(picture.figure.get_size_inches()[0])
        data = base64.b64encode(png).decode()
        return cls(data, picture.title, picture.note, files, round(96 * inches))


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading of its own."""

    title: str
    texts: Sequence[str] = ()
    warnings: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Shown] = ()
    claims: Sequence[dict[str, Any]] = ()  # see `modtf.analysis.report.sections.claims_section`
    kinds: Sequence[str] = ()  # the columns of the claims

    @property
    def anchor(self) -> str:
        return anchor(self.title)


def anchor(title: str) -> str:
    """What links to a section point at."""
    return "".join(c if c.isalnum() else "-" for c in title.lower())


def figure_title(name: str) -> str:
    """The heading of a registered figure."""
    words = name.replace("_", " ").replace(" vs ", " against ").capitalize()
    return words.replace("num rules", "number of rules").replace("seq len", "sequence length")


def render(title: str, sections: Sequence[Section]) -> str:
    """The page: whatever stands in the sections is shown as text, never as markup."""
    environment = Environment(
        loader=PackageLoader("modtf.analysis.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(title=title, sections=sections)


def _text(cell: Any) -> str:
    if isinstance(cell, float):
        return "" if pd.isna(cell) else f"{cell:.4g}"
    return str(cell)
