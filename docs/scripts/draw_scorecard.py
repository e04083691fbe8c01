"""Draw the figure of docs/scorecard.md, and print its tables.

    modtf sweep --study=scorecard_tuning --out=studies/scorecard
    python docs/scripts/draw_scorecard.py studies/scorecard
    modtf sweep --study=scorecard --out=studies/scorecard
    python docs/scripts/draw_scorecard.py studies/scorecard studies/scorecard_smoke

Given the folders of the studies, it first writes the reference results of the package: the search for
learning rates, and the rows if they are trained. The smoke test's studies have `_smoke` in their names."""

import sys
from pathlib import Path
from typing import Any

from sources import IMAGES, RESULTS, measures_table, write_pngs

import modtf
from modtf.engines.state import state_of
from modtf.experiments.modarch.scorecard import card, compare, page
from modtf.experiments.modarch.scorecard.card import rates_in_short, rates_table, search_of
from modtf.experiments.modarch.studies.scorecard import FULL, SMOKE, Frozen
from modtf.pages.text import markdown_table

CARD = RESULTS / "scorecard_my_router.json"
NAME = f"my_router ({card.OURS})"


def write_reference(frozen: Frozen, studied: Path) -> None:
    """Write the reference results of the package from the trained cells of both studies."""
    searched = [frozen.trials(arch, name, router=given) for arch, name, given in frozen.rows()]
    search = [search_of(frozen, trials, studied) for trials in searched]
    cells = frozen.reference(search)
    are_trained = all(state_of(cell, studied).name == "finished" for cell in cells)
    card.write_card(frozen.shipped(), card.card_of(frozen, cells if are_trained else [], search, studied))


def cards() -> dict[str, dict[str, Any]]:
    """Return the reference results and the card of the example plug-in's router, by owner."""
    return {"": card.reference(FULL), card.OURS: card.read_card(CARD, FULL, card.OURS)}


def read() -> modtf.Study:
    """Read the example plug-in's router alongside the reference results."""
    return card.study_of(FULL, cards())


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page, and the verdict with which the command ends."""
    tables, differences = [], compare.differences(study, NAME)
    for part in page.without_given(study).by_kind:
        tables.append(measures_table(part.results, part.level))
        found = differences[differences["kind"] == part.results["kind"].iloc[0]]
        brief = compare.in_brief(found)
        tables.append(markdown_table(list(brief), brief.to_numpy().tolist()))
    both = cards()
    for arch in FULL.protocols:
        rates = rates_table(both, arch, FULL)
        tables.append(markdown_table(list(rates), rates.to_numpy().tolist()))
    summary = [
        *rates_in_short(both[card.OURS], FULL),
        *compare.in_short(study, NAME, differences, compare.places(study)),
    ]
    tables.append(markdown_table(["summary of the example"], [[line] for line in summary]))
    verdict = compare.verdict(page.without_given(study), NAME, differences, compare.routing_words)
    return {"scorecard.md": [*tables, "\n".join(verdict)]}


def draw(study: modtf.Study, folder: Path = IMAGES) -> list[Path]:
    """Write the picture of the page."""
    picture = page.draw_places(compare.places(study), NAME)
    return write_pngs({f"scorecard_{picture.name}": picture}, folder)


if __name__ == "__main__":
    for frozen, studied in zip((FULL, SMOKE), sys.argv[1:], strict=False):
        write_reference(frozen, Path(studied))
