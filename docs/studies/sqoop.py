"""Studies of docs/sqoop.md that go beyond `sqoop_quick`: 4, 4 and 3 cells, and the searches for their rates.

    modtf sweep --study=docs/studies/sqoop.py:sqoop_long --out=runs/sqoop_long

`sqoop_long` repeats the part with two objects for 4,000 steps (80 core-minutes), at the rate that suits each
network, `RATES`. These commands searched it on data seed 5, which is not reported: 14 trials of one model,
60 core-minutes. Two networks had their rate at the end of the first search, so the next rate was tried.

    modtf tune --study=docs/studies/sqoop.py:sqoop_long_tuning --out=runs/sqoop_rates \\
        --space learning_rate=0.0005,0.002,0.008
    modtf tune --study=docs/studies/sqoop.py:sqoop_long_tuning --out=runs/sqoop_rates \\
        --variant=all_all_all_bn --space learning_rate=0.0005,0.002,0.008,0.032
    modtf tune --study=docs/studies/sqoop.py:sqoop_long_tuning --out=runs/sqoop_rates \\
        --variant=all_sub_all_bn --space learning_rate=0.000125,0.0005,0.002,0.008

`sqoop_five` has five objects and 10,000 steps, in which known pairs should reach 90%: 20 models, 2 hours.
At the rate that was best for it with two objects `all_all_all_bn` had 80% of them, so the rates were searched
again, with five objects: 16 trials, 40 minutes.

    modtf tune --study=docs/studies/sqoop.py:sqoop_five_tuning --out=runs/sqoop_five_rates \\
        --space learning_rate=0.0005,0.002,0.008
    modtf sweep --study=docs/studies/sqoop.py:sqoop_five --out=runs/sqoop_five

`sqoop_more` adds ten tasks to the five of `sqoop_long`, for the gain of
`all_sub_all_bn` over `all_all_all_bn`, and of both over FiLM: 30 models, 2 core-hours.

    modtf sweep --study=docs/studies/sqoop.py:sqoop_more --out=runs/sqoop_long
"""

from modtf.experiments.questions.studies import sqoop_networks, sqoop_tasks
from modtf.studies.grid import Grid, grid, together
from modtf.tasks.cell import Cell

STEPS = grid(**{"training.steps": 4_000})
TUNED_ON = 5  # the data seed of the search, which `sqoop_long` does not use
#: network -> the rate with the least validation error in the search
RATES = {"all_all_all_bn": 0.008, "all_sub_all_bn": 0.0005, "film": 0.002, "mac": 0.002}
#: the same in the search with five objects
FIVE_RATES = {"all_all_all_bn": 0.002, "all_sub_all_bn": 0.0005, "film": 0.002, "mac": 0.0005}


def sqoop_long() -> list[Cell]:
    """Return every variant with two objects and more steps, at its own rate."""
    return (sqoop_tasks(2) * STEPS * at(RATES)).cells()


def at(rates: dict[str, float]) -> Grid:
    """Return every variant at its own rate."""
    return together(variant=list(rates), **{"training.learning_rate": list(rates.values())})


def sqoop_five() -> list[Cell]:
    """Return every variant with five objects, trained until it answers the known pairs."""
    return (sqoop_tasks(5) * grid(**{"training.steps": 10_000}) * at(FIVE_RATES)).cells()


def sqoop_more() -> list[Cell]:
    """Return the trees and FiLM of `sqoop_long` on more tasks."""
    members = tuple((task, 0) for task in range(TUNED_ON + 1, TUNED_ON + 11))
    cells = (sqoop_tasks(2) * grid(members=members) * STEPS * at(RATES)).cells()
    return [cell for cell in cells if cell.variant != "mac"]


def sqoop_long_tuning() -> list[Cell]:
    """Return the cells whose rates are searched for `sqoop_long`."""
    return _tuning(2)


def sqoop_five_tuning() -> list[Cell]:
    """Return the cells whose rates are searched for `sqoop_five`."""
    return _tuning(5)


def _tuning(objects: int) -> list[Cell]:
    return (sqoop_tasks(objects) * grid(members=((TUNED_ON, 0),)) * STEPS * sqoop_networks()).cells()
