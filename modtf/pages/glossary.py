"""The sections of a page that explain its words and measures."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from modtf.pages.page import Glossary, Section, Table


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
