"""Studies of docs/vqa.md that go beyond `vqa_quick`: 1, 20 and 14 cells.

    modtf sweep --study=docs/studies/vqa.py:vqa_wide --out=runs/vqa_wide
    modtf sweep --study=docs/studies/vqa.py:vqa_attribute --out=runs/vqa_quick
    modtf sweep --study=docs/studies/vqa.py:vqa_supplement --out=runs/vqa_quick

`vqa_wide` is `all_all_all` on `attribute` at width 32: 5 models, about half an hour. It has 200,194
parameters, about as many as `group_group_group` at width 16 (202,776). It separates modularity from size.

`vqa_attribute` varies the rounds of combinations for `attribute`: 1, 2, 5 and 20 with the five main
libraries. Its five cells with two rounds are those of `vqa_quick`, which a sweep into the same folder does
not train again. The other 15 cells, 75 models, take about 2 core-hours. `vqa_supplement` has the supplement's
other libraries with two rounds: 6 for `attribute` and 8 for `comparison`, 70 models, about 4 core-hours.
"""

from modtf.experiments.questions.sets import DIGITS, MAIN
from modtf.experiments.questions.studies import asked, at_its_rate
from modtf.studies.grid import grid
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES

ROUNDS = (1, 2, 5, 20)
WIDE = 32  # at this width `all_all_all` has as many parameters as `group_group_group` at 16


def vqa_wide() -> list[Cell]:
    """Return one module for all in every layer, with as many parameters as modules per group have."""
    return (asked(["attribute"]) * grid(variant="all_all_all", width=WIDE)).cells()


def vqa_attribute() -> list[Cell]:
    """Return the main libraries on `attribute`, with more and with fewer combinations in training."""
    tasks = asked(["attribute"]) * grid(rounds=list(ROUNDS))
    return [at_its_rate(cell) for cell in (tasks * grid(variant=list(MAIN))).cells()]


def vqa_supplement() -> list[Cell]:
    """Return the libraries that the supplement adds, on `attribute` and `comparison`."""
    added = [variant.name for variant in FAMILIES[DIGITS].variants if not variant.by_default]
    mixed = [name for name in added if "mixed" in name]
    everywhere = [name for name in added if name not in mixed]
    cells = asked(["attribute", "comparison"]) * grid(variant=everywhere)
    cells = cells + asked(["comparison"]) * grid(variant=mixed)
    return [at_its_rate(cell) for cell in cells.cells()]
