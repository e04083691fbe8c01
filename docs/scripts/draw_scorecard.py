"""Draw the figures of docs/scorecard.md, and print its tables.

    modtf sweep --study=scorecard --out=studies/scorecard
    modtf sweep --study=scorecard_smoke --out=studies/scorecard_smoke
    python docs/scripts/draw_scorecard.py studies/scorecard studies/scorecard_smoke

Given the folders of the studies, it first writes the reference results of the package."""

import sys
from pathlib import Path

import modtf
from modtf.analysis.figures.base import write_pngs
from modtf.analysis.table import table_cells
from modtf.analysis.text import markdown_table
from modtf.experiments.modarch import scorecard
from modtf.experiments.modarch.scorecard import card, compare, page
from modtf.experiments.modarch.studies.scorecard import FULL, SMOKE

DOCS = Path(__file__).parents[1]
CARD = DOCS / "study" / "scorecard_my_router.json"
NAME = f"my_router ({card.OURS})"


def read() -> modtf.Study:
    """Read the example plug-in's router alongside the reference results."""
    return card.study_of(FULL, {"": card.reference(FULL), card.OURS: card.read_card(CARD, FULL, card.OURS)})


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page, and the command's short summary."""
    tables, differences = [], compare.differences(study, NAME)
    for part in page.without_given(study).by_kind:
        header, body = table_cells(part.results)
        tables.append(markdown_table(header[:-2], [row[:-2] for row in body]))
        found = differences[differences["kind"] == part.results["kind"].iloc[0]]
        brief = compare.in_brief(found)
        tables.append(markdown_table(list(brief), brief.to_numpy().tolist()))
    said = compare.in_short(study, NAME, differences, compare.places(study))
    return {"scorecard.md": [*tables, "\n".join(said)]}


def draw(study: modtf.Study, folder: Path = DOCS / "images") -> list[Path]:
    """Write the pictures of the page."""
    rows = [page.draw_rows(part, NAME) for part in page.without_given(study).by_kind]
    pictures = [*rows, page.draw_places(compare.places(study), NAME)]
    return write_pngs({f"scorecard_{picture.name}": picture for picture in pictures}, folder)


if __name__ == "__main__":
    for frozen, studied in zip((FULL, SMOKE), sys.argv[1:], strict=False):
        place = Path(scorecard.__path__[0], f"{frozen.version}.json")
        card.write_card(place, card.card_of(frozen, frozen.reference(), studied))
    if CARD.exists():
        trained = read()
        draw(trained)
        print("\n\n".join(texts(trained)["scorecard.md"]))
