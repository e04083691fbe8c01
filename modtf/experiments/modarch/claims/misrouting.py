"""Claims about what misrouting costs, by models whose modules were trained under a routing that was given."""

from collections.abc import Iterable
from functools import partial
from itertools import product

import pandas as pd

from modtf.analysis.claims.evidence import Evidence, mean_evidence
from modtf.analysis.claims.registry import documented_claim
from modtf.analysis.rows import IN, OUT
from modtf.analysis.trained import TrainedModels
from modtf.experiments.modarch.given import GIVEN, WAYS, Dose, saved, trends, with_doses

MARGIN = 0.15  # of the loss or error: ten tasks of the mlp resolve some 11 to 14%
NARROWER = {"rnn": 0.05}  # where ten tasks resolve more: 3 to 4%
#: rules that share modules evenly: how many, and as many modules for them
EVENLY = {2: ("block", 2), 4: ("block", 4), 8: ("spread", 0.875)}
REDUCTION = "relative reduction of the loss or error"

claim = partial(documented_claim, "misrouting", router=GIVEN)


def _run(found: Iterable[Evidence]) -> list[Evidence]:
    """What was run of it, as not every kind has all doses; where nothing was, all of it: what lacks."""
    asked = list(found)
    return [piece for piece in asked if piece.num_tasks] or asked


def _doses(study: TrainedModels) -> dict[str, pd.DataFrame]:
    """`with_doses`, in and out of distribution."""
    doses = with_doses(study)
    return {where: doses[doses["distribution"] == where] for where in (IN, OUT)}


@claim("slope of the log loss or error over alignment")
def misrouting_costs(study: TrainedModels) -> list[Evidence]:
    """the farther a routing that is given is from the rules, the worse its modules perform."""
    apart = _doses(study)
    return _run(
        mean_evidence(
            trends(apart[where], matrix, drawn), "slope", f"{matrix}, {way}, {where}", level=study.level
        )
        for where, matrix, (drawn, way) in product(apart, ("spread", "block"), WAYS.items())
    )


def _compared(
    study: TrainedModels, compared: Iterable[tuple[str, Dose, Dose]], within: float | None = None
) -> list[Evidence]:
    apart = _doses(study)
    return _run(
        mean_evidence(
            saved(rows, first, second), "advantage", f"{name}, {where}", within=within, level=study.level
        )
        for name, first, second in compared
        for where, rows in apart.items()
    )


@claim(REDUCTION)
def a_tenth_misrouted_is_cheap(study: TrainedModels) -> list[Evidence]:
    """a tenth of the tokens, or of every token, misrouted costs less than 15%, in the rnn than 5%."""
    doses = [
        (f"perfect over a tenth, {way}", ("spread", 0.0, False), ("spread", 0.1, drawn))
        for drawn, way in WAYS.items()
    ]
    [arch] = study.results["arch"].unique()
    return _compared(study, doses, within=NARROWER.get(str(arch), MARGIN))


@claim(REDUCTION)
def half_the_modules_cost(study: TrainedModels) -> list[Evidence]:
    """where rules share modules evenly, half as many modules do worse at the same alignment."""
    doses = [
        (
            f"{size} modules over {size // 2} for {size} rules, {way}",
            (*even, drawn),
            ("collapsed", size, drawn),
        )
        for (drawn, way), (size, even) in product(WAYS.items(), EVENLY.items())
    ]
    return _compared(study, doses)


@claim(REDUCTION)
def drawn_costs_more(study: TrainedModels) -> list[Evidence]:
    """a module drawn for every token costs more than all of them, mixed as they would be drawn."""
    both = with_doses(study).groupby(["matrix", "amount"])["drawn"].nunique()
    doses = [
        (f"soft over drawn, {matrix} {amount:g}", (matrix, amount, False), (matrix, amount, True))
        for matrix, amount in both[both == 2].index
    ]
    return _compared(study, doses)
