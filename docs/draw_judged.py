"""Draws which measures track specialisation, for docs/measures.md: `python docs/draw_judged.py`.

Reads docs/study/first.zip and docs/study/routers.zip, writes docs/images/measures_judged.png, and prints the
tables.
"""

from pathlib import Path

import modtf
from modtf.analysis.contents import stands_on
from modtf.analysis.figures.base import write_pngs
from modtf.analysis.text import markdown_table
from modtf.analysis.tracking import judged_cells

HERE = Path(__file__).parent
RESULTS = [HERE / "study" / "first.zip", HERE / "study" / "routers.zip"]


def read() -> modtf.Study:
    """All trained models of both studies."""
    return modtf.Study.read(RESULTS)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """The tables of the page."""
    judged = judged_cells(study.judged_measures).values()
    return {
        "measures.md": [stands_on(study.cells, study.checkpoint, markdown_table(*cells)) for cells in judged]
    }


def draw(study: modtf.Study, folder: Path = HERE / "images") -> list[Path]:
    """Writes the picture of the page."""
    [picture] = study.figure("measures_judged")
    return write_pngs({picture.name: picture}, folder)


if __name__ == "__main__":
    both = read()
    draw(both)
    print("\n\n".join(texts(both)["measures.md"]))
