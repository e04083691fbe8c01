"""The study `misrouting` under a cosine schedule: 40 cells of the MLP, 137 to tune.

    modtf sweep --study=misrouting_cosine_tuning --out=studies/misrouting_cosine_tuning
    modtf sweep --study=misrouting_cosine --out=studies/misrouting_cosine

The protocol, the reported tasks and the search for learning rates are those of `factors_cosine`: R = M = 8,
width 32, 10,000 steps, tasks 10 to 14, each fixed routing at the rate with the lowest validation loss on
tasks 5 to 7. Perfect, uniform and random routing are cells of `factors_cosine` too.
"""

from modtf.experiments.modarch.studies import factors_cosine, misrouting
from modtf.experiments.modarch.studies.factors_cosine import GIVEN, Rates, named_cells, trials
from modtf.experiments.modarch.studies.misrouting import dose
from modtf.studies.grid import Grid, grid
from modtf.studies.load import register_study
from modtf.tasks.cell import Cell

#: fixed routing by its name: matrix, amount, whether one module is sampled
DOSES: dict[str, tuple[str, float, bool]] = {
    f"{matrix} {amount:g}, {'sampled' if hard else 'weighted'}": (matrix, amount, hard)
    for (matrix, amount), differs in misrouting.DOSES.items()
    for hard in (False, True)[: 1 + differs]
    if (matrix, amount, hard) not in GIVEN.values()
}
#: setting -> fixed routing -> the rate with the lowest validation loss
RATES: Rates = {
    "classification": {
        "spread 0.1, weighted": 3e-3, "spread 0.1, sampled": 3e-3,
        "spread 0.25, weighted": 3e-3, "spread 0.25, sampled": 3e-3,
        "spread 0.5, weighted": 1e-2, "spread 0.5, sampled": 3e-3,
        "spread 0.75, weighted": 1e-2, "spread 0.75, sampled": 1e-2,
        "block 2, weighted": 1e-2, "block 2, sampled": 1e-2,
        "block 4, weighted": 1e-2, "block 4, sampled": 1e-2,
        "collapsed 2, weighted": 1e-2,
        "collapsed 4, weighted": 1e-2, "collapsed 4, sampled": 1e-2,
        "collapsed 8, weighted": 1e-2, "collapsed 8, sampled": 1e-2,
    },
    "regression": {
        "spread 0.1, weighted": 1e-2, "spread 0.1, sampled": 1e-2,
        "spread 0.25, weighted": 1e-2, "spread 0.25, sampled": 1e-2,
        "spread 0.5, weighted": 1e-2, "spread 0.5, sampled": 1e-2,
        "spread 0.75, weighted": 3e-2, "spread 0.75, sampled": 1e-2,
        "block 2, weighted": 3e-2, "block 2, sampled": 3e-2,
        "block 4, weighted": 3e-2, "block 4, sampled": 1e-2,
        "collapsed 2, weighted": 3e-2,
        "collapsed 4, weighted": 1e-2, "collapsed 4, sampled": 1e-2,
        "collapsed 8, weighted": 3e-2, "collapsed 8, sampled": 1e-2,
    },
}  # fmt: skip


def routings() -> dict[str, Grid]:
    """Return every fixed routing by its name."""
    return {name: grid(variant="clamped") * dose(*which) for name, which in (GIVEN | DOSES).items()}


def all_rates() -> Rates:
    """Return the chosen rates, with those of `factors_cosine` for perfect, uniform and random routing."""
    shared = factors_cosine.RATES
    return {
        setting: {name: shared[setting][name] for name in GIVEN} | dict(chosen)
        for setting, chosen in RATES.items()
    }


@register_study("misrouting_cosine_tuning")
def tuning() -> list[Cell]:
    """Return every fixed routing at every starting rate, on tasks that are not reported."""
    return [cell for *_, cell in trials(routings(), RATES)]


@register_study("misrouting_cosine")
def cells() -> list[Cell]:
    """Return every fixed routing at its rate, on the reported tasks."""
    return [cell for _, cell in named_cells(routings(), all_rates())]
