"""The paper's open questions: 62 cells, 565 models, in about two core-hours; 17 cells to choose rates.

    modtf sweep --study=docs/studies/open_questions.py:open_questions_tuning \\
        --out=studies/open_questions_tuning
    modtf sweep --study=docs/studies/open_questions.py:open_questions --out=studies/open_questions

Regression, R = 8, width 32, tasks from 20, which no other study uses: ten for the mlp, five for the rnn,
whose models cost ten times as much. The learning rate falls to 0 as a cosine. A pilot on tasks 5 to 7 chose
its start, for each variant and balance apart: the rate with the lowest validation loss. One part per
question:

| part | question | cells |
|---|---|---|
| unequal | does balance help or hurt if rules are unequally frequent (Zipf 0, 0.5, 1, 1.5)? | 12 |
| finite | how much data does knowing the rule save (300 to 100,000 examples)? | 20 |
| withheld | do modules compose pairs of rules that they have not seen together? | 4 |
| noise | what does label noise cost? | 4 |
| rules | do the findings hold for other rules, and if the model is not told the rule? | 14 |
| harder | outside the training inputs, and in sequences of up to 100 tokens? | 8 |
"""

from collections.abc import Iterable, Mapping

from factors import tuned

from modtf.studies.grid import Grid, grid
from modtf.tasks.cell import VARIANTS, Cell

TASKS = {"mlp": tuple(range(20, 30)), "rnn": tuple(range(20, 25))}
TUNED_ON = (5, 6, 7)  # tasks
LENGTH = {"mlp": {"steps": 5_000, "batch_size": 256}, "rnn": {"steps": 5_000, "batch_size": 64}}
SMALL = {"batches": 20, "batch_size": 128, "tokens": 12_800, "draws": 10, "tokens_per_draw": 1_280}
LONG = ("iid", "len30_scale2", "len50", "len100", "outside")
UNTOLD = ("monolithic", "modular", "gt_modular")
BALANCES = ("none", "auxiliary", "bias")
SIZES = (300, 1_000, 3_000, 10_000, 100_000)
#: family -> variant or balance -> the rate with the lowest validation loss
RATES: Mapping[str, Mapping[str, float]] = {
    "mlp": {"monolithic": 1e-2, "modular": 1e-2, "modular_op": 3e-2, "gt_modular": 3e-2}
    | dict.fromkeys(BALANCES, 3e-3),
    "rnn": {"monolithic": 1e-2, "modular": 1e-2, "modular_op": 3e-3, "gt_modular": 3e-3},
}
#: what the pilot of the mlp tried
TRIED = dict.fromkeys(VARIANTS, (1e-2, 3e-2)) | dict.fromkeys(BALANCES, (1e-2, 3e-3, 1e-3))


def routed(name: str) -> Grid:
    """Return the grid of a variant, or of a router with one of eight modules and this balance."""
    if name in BALANCES:
        return tuned(1, name)
    return grid(variant=name)


def trained(arch: str, learning_rate: float, tasks: Iterable[int], **changes: object) -> Grid:
    """Return the grid that all cells of a family share, with further settings."""
    protocol: dict[str, object] = {f"training.{name}": value for name, value in LENGTH[arch].items()}
    protocol |= {f"evaluation.{name}": value for name, value in SMALL.items()}
    shared = {"setting": "regression", "num_rules": 8, "width": 32, "preset": "quick"}
    shared |= {"arch": arch, "members": tuple((task, 0) for task in tasks)}
    return grid(**(shared | protocol | {"training.learning_rate": learning_rate} | changes))


def cells_of(arch: str, names: Iterable[str] = VARIANTS, **changes: object) -> Grid:
    """Return variants or balances of a family, each at its rate, under options of tasks and protocol."""
    return _sum(routed(name) * trained(arch, RATES[arch][name], TASKS[arch], **changes) for name in names)


def parts() -> Mapping[str, Grid]:
    """Return the cells of every question as grids."""
    return {
        "unequal": _sum(cells_of("mlp", BALANCES, zipf=zipf) for zipf in (0.0, 0.5, 1.0, 1.5)),
        "finite": _sum(cells_of("mlp", num_train=size) for size in SIZES),
        "withheld": cells_of("rnn", withheld=2),
        "noise": cells_of("mlp", noise=0.3),
        "rules": _sum(cells_of("mlp", form=form) for form in ("network", "operation"))
        + cells_of("mlp", UNTOLD, shift=2.0, hidden=1)
        + cells_of("rnn", UNTOLD, shift=0.3, hidden=1),
        "harder": cells_of("mlp", shell=1.0) + cells_of("rnn", shell=1.0, **{"evaluation.conditions": LONG}),
    }


def open_questions() -> list[Cell]:
    """Return the cells of all parts, those of the mlp first."""
    return sorted(_sum(parts().values()).cells(), key=lambda cell: cell.task.arch)


def open_questions_tuning() -> list[Cell]:
    """Return the cells that chose the rates of the mlp, on tasks that are not reported."""
    few = {"evaluation.draws": 2, "training.evaluations": 2}
    points = [
        routed(name) * trained("mlp", rate, TUNED_ON, **few)
        for name, rates in TRIED.items()
        for rate in rates
    ]
    return _sum(points).cells()


def _sum(grids: Iterable[Grid]) -> Grid:
    return sum(grids, Grid([]))
