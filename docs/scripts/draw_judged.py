"""Make the tables and the picture of docs/measures.md: which measures track specialisation."""

from functools import partial
from pathlib import Path

from sources import IMAGES, archive, stands_on, write_pngs

import modtf
from modtf.analysis.tracking import judged_cells
from modtf.pages.text import markdown_table

read = partial(archive, "factors_cosine", "recurrent_cosine")


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page, under cosine and at constant rates: all routers have one R."""
    tables = []
    for each in (study, archive("factors")):
        cells = judged_cells(each.judged_measures)["routers at one R"]
        tables.append(stands_on(each.cells, each.checkpoint, markdown_table(*cells)))
    return {"measures.md": tables}


def draw(study: modtf.Study, folder: Path = IMAGES) -> list[Path]:
    """Write the picture of the page."""
    [picture] = study.figure("measures_judged")
    return write_pngs({picture.name: picture}, folder)
