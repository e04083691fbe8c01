"""The report as one HTML page that needs nothing else: figures and style stand inside it."""

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template

import pandas as pd

MAX_ROWS = 60  # of a table on the page; the CSV file has all


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading of its own."""

    title: str
    body: str  # HTML

    @property
    def anchor(self) -> str:
        return "".join(c if c.isalnum() else "-" for c in self.title.lower())


def render(title: str, sections: Sequence[Section]) -> str:
    """The page.

    Args:
        title: of the page.
        sections: in order; a table of contents links to them.
    """
    template = Template(resources.files("modtf.launch").joinpath("report_page.html").read_text("utf-8"))
    contents = "".join(f'<li><a href="#{s.anchor}">{html.escape(s.title)}</a></li>' for s in sections)
    body = "".join(
        f'<section id="{s.anchor}"><h2>{html.escape(s.title)}</h2>{s.body}</section>' for s in sections
    )
    return template.substitute(title=html.escape(title), contents=contents, body=body)


def figure_title(name: str) -> str:
    """The heading of a registered figure."""
    return name.replace("_", " ").replace(" vs ", " against ").capitalize()


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text, with a CSS class."""
    return f'<p class="{kind}">{html.escape(text)}</p>' if kind else f"<p>{html.escape(text)}</p>"


def heading(text: str) -> str:
    """A heading below that of a section."""
    return f"<h3>{html.escape(text)}</h3>"


def picture(png: bytes, title: str, note: str, width: float, name: str) -> str:
    """A figure with its caption.

    Args:
        png: the image.
        title, note: the note becomes the caption and, with the title, the alternative text.
        width: in inches, at which it is shown unless the window is narrower.
        name: of the files beside the page.
    """
    data = base64.b64encode(png).decode()
    alternative = html.escape(f"{title}. {note}", quote=True)
    return (
        f'<figure><img src="data:image/png;base64,{data}" alt="{alternative}" '
        f'style="width:{width * 96:.0f}px">'
        f"<figcaption>figures/{html.escape(name)}.png, .svg; tables/{html.escape(name)}.csv</figcaption>"
        "</figure>"
    )


def table(frame: pd.DataFrame, file: str = "") -> str:
    """A table; long ones are cut, and say so.

    Args:
        frame: the rows.
        file: name of the CSV file that holds all of them.
    """
    shown = frame.head(MAX_ROWS).rename(columns=lambda name: str(name).replace("_", " "))
    text = shown.to_html(index=False, border=0, na_rep="", float_format=_number, justify="left")
    if len(frame) > MAX_ROWS:
        text += paragraph(f"{MAX_ROWS} of {len(frame)} rows are shown.", "small")
    return f'<div class="scroll">{text}</div>' + (paragraph(f"tables/{file}", "small") if file else "")


def claims_table(lines: pd.DataFrame) -> str:
    """The lines of `claim_lines`: claim, figure (linked), ..., verdict (marked)."""
    head = "".join(f"<th>{html.escape(str(name))}</th>" for name in lines)
    rows = []
    for values in lines.itertuples(index=False):
        claim, figure, *cells, verdict = map(str, values)
        marked = f'<td class="verdict {html.escape(verdict.replace(" ", "-"))}">{html.escape(verdict)}</td>'
        shown = Section(figure_title(figure), "")
        link = f'<a href="#{shown.anchor}">{html.escape(shown.title)}</a>'
        columns = [html.escape(claim), link, *map(html.escape, cells)]
        rows.append("<tr>" + "".join(f"<td>{column}</td>" for column in columns) + marked + "</tr>")
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<div class="scroll"><table>{body}</table></div>'


def _number(value: float) -> str:
    return f"{value:.4g}"
