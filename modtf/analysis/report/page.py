"""The report as one HTML page that needs nothing else: figures and style stand inside it."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

MAX_ROWS = 60  # of a table on the page; the CSV file has all


def table(frame: pd.DataFrame, file: str = "") -> str:
    """Markup of a table; a long one is cut, and says so. `file`, beside the page, has all of it."""
    shown = frame.head(MAX_ROWS).rename(columns=lambda name: str(name).replace("_", " "))
    with pd.option_context("display.max_colwidth", None):
        html = shown.to_html(index=False, border=0, justify="left", na_rep="", float_format="{:.4g}".format)
    below = [f"{len(shown)} of {len(frame)} rows are shown."] * (len(frame) > MAX_ROWS) + [file] * bool(file)
    notes = "\n".join(f'<p class="small">{escape(text)}</p>' for text in below)
    return f'<div class="scroll">{html}</div>\n{notes}'


def shown(picture: Any, png: bytes, files: str) -> str:
    """Markup of a `Picture`, as wide as it was drawn unless the window is narrower; `files` are beside it."""
    width, data = 96 * picture.figure.get_size_inches()[0], base64.b64encode(png).decode()
    said = escape(f"{picture.title}. {picture.note}")
    return (
        f'<figure>\n<img src="data:image/png;base64,{data}" alt="{said}" style="width:{width:.0f}px">\n'
        f"<figcaption>{escape(files)}</figcaption>\n</figure>"
    )


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading of its own."""

    title: str
    texts: Sequence[str] = ()
    warnings: Sequence[str] = ()
    content: Sequence[str] = ()  # markup of tables and pictures
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
    """The page: whatever stands in the sections is shown as text, but for `content`."""
    loader = PackageLoader("modtf.analysis.report", "")
    clean: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": StrictUndefined}
    template = Environment(loader=loader, autoescape=True, **clean).get_template("page.html")
    return template.render(title=title, sections=sections)
