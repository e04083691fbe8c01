"""Draw which measures track specialisation, for docs/measures.md: `python docs/scripts/draw_judged.py`.

It reads docs/study/factors_cosine.zip and recurrent_cosine.zip, and for the constant rates factors.zip. It
writes docs/images/measures_judged.png, and prints the tables.
"""

from pathlib import Path

import modtf
from modtf.analysis.contents import stands_on
from modtf.analysis.tracking import judged_cells
from modtf.pages.pictures import write_pngs
from modtf.pages.text import markdown_table

DOCS = Path(__file__).parents[1]
STUDIES = DOCS / "study"


def read() -> modtf.Study:
    """Return all models under a cosine schedule."""
    return modtf.Study.read([STUDIES / "factors_cosine.zip", STUDIES / "recurrent_cosine.zip"])


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page, under cosine and at constant rates: all routers have one R."""
    constant = modtf.Study.read(STUDIES / "factors.zip")
    judged = [judged_cells(each.judged_measures)["routers at one R"] for each in (study, constant)]
    tables = zip((study, constant), judged, strict=True)
    return {
        "measures.md": [
            stands_on(each.cells, each.checkpoint, markdown_table(*cells)) for each, cells in tables
        ]
    }


def draw(study: modtf.Study, folder: Path = DOCS / "images") -> list[Path]:
    """Write the picture of the page."""
    [picture] = study.figure("measures_judged")
    return write_pngs({picture.name: picture}, folder)


if __name__ == "__main__":
    study = read()
    draw(study)
    print("\n\n".join(texts(study)["measures.md"]))
