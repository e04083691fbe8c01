"""The page of every report: sections of texts, tables and figures, which one template turns into HTML.

The page needs no other file: figures and style stand inside it.
"""

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

MAX_ROWS = 60  # of a table on the page; the CSV file has all


@dataclass(frozen=True)
class Table:
    """A table. A long one is cut and says so; `file`, beside the page, has all of it."""

    frame: pd.DataFrame
    file: str = ""
    most: int = MAX_ROWS

    @property
    def header(self) -> list[str]:
        """The names of the columns."""
        return [str(name).replace("_", " ") for name in self.frame]

    @property
    def rows(self) -> list[list[str]]:
        """The cells that are shown, as text."""
        return [list(map(_cell, row)) for row in self.frame.head(self.most).itertuples(index=False)]

    @property
    def notes(self) -> list[str]:
        """The texts below the table."""
        cut = f"{self.most} of {len(self.frame)} rows are shown."
        return [cut] * (len(self.frame) > self.most) + [self.file] * bool(self.file)


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.4g}"
    text = "" if value is None or value is pd.NA else str(value)
    return text.replace(" ±", "\N{NO-BREAK SPACE}±")


@dataclass(frozen=True)
class Image:
    """A `Picture` as wide as it was drawn, unless the window is narrower; `files` are beside the page."""

    picture: Any
    png: bytes
    files: str

    @property
    def width(self) -> int:
        """The width in pixels."""
        return round(96 * self.picture.figure.get_size_inches()[0])

    @property
    def data(self) -> str:
        """The PNG in base64."""
        return base64.b64encode(self.png).decode()


@dataclass(frozen=True)
class Text:
    """A paragraph among other parts."""

    text: str
    small: bool = False


@dataclass(frozen=True)
class Matrix:
    """A matrix with a pixel for each cell, as a PNG in base64, and the names of its rows.

    Those who cannot see it hear the title and `note`.
    """

    title: str
    data: str
    names: Sequence[str]
    note: str = ""


@dataclass(frozen=True)
class Passages:
    """Texts whose tokens have the colour of their expert, in one of several layers that a reader chooses.

    Attributes:
        layers: the name of each layer, and a sentence about it.
        passages: title, tokens, and the experts of each token, one for each layer; -1 for none.
        chosen: the place of the layer that is shown first.
    """

    layers: Sequence[tuple[str, str]]
    passages: Sequence[tuple[str, Sequence[str], Sequence[Sequence[int]]]]
    chosen: int = 0


@dataclass(frozen=True)
class Links:
    """A line of links, (address, text), after a word."""

    before: str
    links: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Fold:
    """Parts that are shown when their title is opened."""

    title: str
    parts: Sequence[Any]


@dataclass(frozen=True)
class Claims:
    """Verdicts on claims: a row for each, a column for each of `kinds`; then the numbers behind each."""

    kinds: Sequence[str]
    lines: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Glossary:
    """Terms and what they mean."""

    terms: Mapping[str, str]


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading of its own."""

    title: str
    texts: Sequence[str] = ()
    warnings: Sequence[str] = ()
    content: Sequence[Any] = ()  # tables, images and the like: the classes above
    findings: Sequence[str] = ()  # sentences that stand first, as a list
    parts: Sequence["Section"] = ()  # with smaller headings

    @property
    def anchor(self) -> str:
        return anchor(self.title)


def glossary_section(words: Mapping[str, str], *names: str) -> Section:
    """Return the section that explains words of the page: term -> meaning; `names` of them, or all."""
    return Section("Glossary", content=[Glossary({name: words[name] for name in names or words})])


def measures_section(measures: Iterable[Any], words: Callable[[str], str] = str) -> Section:
    """Return the section that explains measures, objects of `modtf.metrics`, in these `words`."""
    rows = [
        {
            "measure": m.name,
            "what it says": words(m.description),
            "range": f"{m.range[0]:g} to {m.range[1]:g}",
            "perfect": "-" if m.perfect is None else f"{m.perfect:g}",
            "better": {True: "smaller", False: "larger", None: "-"}[m.smaller_is_better],
        }
        for m in measures
    ]
    return Section("Measures", content=[Table(pd.DataFrame(rows))])


def anchor(title: str) -> str:
    """Return the link target of a section."""
    return "".join(c if c.isalnum() else "-" for c in title.lower())


def term_anchor(term: str) -> str:
    """Return the link target of a term of the glossary."""
    return anchor(f"glossary {term}")


class _Words:
    """The template's filter for texts: names in backticks become code, first uses of terms become links."""

    def __init__(self, sections: Sequence[Section]):
        glossaries = [part for one in sections for part in one.content if isinstance(part, Glossary)]
        self._targets = {term.lower(): term_anchor(term) for part in glossaries for term in part.terms}
        self._meanings = {term.lower(): text for part in glossaries for term, text in part.terms.items()}
        longest = sorted(map(re.escape, self._targets), key=len, reverse=True)
        self._terms = re.compile(rf"(`[^`]*`)|\b({'|'.join(longest) or '(?!)'})(s?)\b", re.IGNORECASE)

    def __call__(self, text: str) -> Markup:
        return Markup(self._terms.sub(self._marked, str(escape(text))))

    def _marked(self, match: re.Match[str]) -> str:
        code, term, plural = match.groups()
        if code:
            return f"<code>{code[1:-1]}</code>"
        target = self._targets.pop(term.lower(), None)
        meaning = escape(self._meanings[term.lower()].replace("`", ""))
        return f'<a href="#{target}" title="{meaning}">{term}{plural}</a>' if target else match[0]


def render(title: str, sections: Sequence[Section]) -> str:
    """Render the page: the template escapes whatever stands in the sections."""
    loader = PackageLoader("modtf.pages", "")
    clean: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": StrictUndefined}
    environment = Environment(loader=loader, autoescape=True, **clean)
    environment.filters |= {"words": _Words(sections), "term_anchor": term_anchor}
    return environment.get_template("page.html").render(title=title, sections=sections).lstrip()
