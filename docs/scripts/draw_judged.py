"""Draw which measures track specialisation, for docs/measures.md: `python docs/scripts/draw_judged.py`.

It reads docs/study/factors.zip, writes docs/images/measures_judged.png, and prints the table.
"""

from pathlib import Path

import modtf
from modtf.analysis.contents import stands_on
from modtf.analysis.figures.base import write_pngs
from modtf.analysis.text import markdown_table
from modtf.analysis.tracking import judged_cells

DOCS = Path(__file__).parents[1]


def read() -> modtf.Study:
    """Return all models of the study."""
    return modtf.Study.read(DOCS / "study" / "factors.zip")


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the table of the page: all routers have one R."""
    judged = markdown_table(*judged_cells(study.judged_measures)["routers at one R"])
    return {"measures.md": [stands_on(study.cells, study.checkpoint, judged)]}


def draw(study: modtf.Study, folder: Path = DOCS / "images") -> list[Path]:
    """Write the picture of the page."""
    [picture] = study.figure("measures_judged")
    return write_pngs({picture.name: picture}, folder)


if __name__ == "__main__":
    study = read()
    draw(study)
    print("\n\n".join(texts(study)["measures.md"]))
