"""Claims about what misrouting costs, by models whose modules were trained under a routing that was given."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product

from modtf.analysis.claims.evidence import Evidence, mean_evidence
from modtf.analysis.claims.registry import documented_claim
from modtf.analysis.rows import IN, OUT
from modtf.analysis.trained import TrainedModels
from modtf.experiments.modarch.given import GIVEN, WAYS, Dose, saved, trends, with_doses

MARGIN = 0.15  # of the loss or error: ten tasks of the mlp resolve some 11 to 14%
REDUCTION = "relative reduction of the loss or error"

Found = Iterator[Evidence]
claim = partial(documented_claim, "misrouting", router=GIVEN)


@claim("slope of the log loss or error over alignment")
def misrouting_costs(study: TrainedModels) -> Found:
    """the farther a routing that is given is from the rules, the worse its modules perform."""
    doses = with_doses(study)
    for where, matrix, (drawn, way) in product((IN, OUT), ("spread", "block"), WAYS.items()):
        found = trends(doses[doses["distribution"] == where], matrix, drawn)
        yield mean_evidence(found, "slope", f"{matrix}, {way}, {where}", level=study.level)


def _compared(study: TrainedModels, compared: Iterable[tuple[str, Dose, Dose]], **within: float) -> Found:
    doses = with_doses(study)
    apart = {where: doses[doses["distribution"] == where] for where in (IN, OUT)}
    for name, first, second in compared:
        for where, rows in apart.items():
            pairs = saved(rows, first, second)
            yield mean_evidence(pairs, "advantage", f"{name}, {where}", level=study.level, **within)


@claim(REDUCTION)
def a_tenth_misrouted_is_cheap(study: TrainedModels) -> Found:
    """a tenth of the tokens, or of every token, misrouted costs less than 15%."""
    doses = [
        (f"perfect over a tenth, {way}", ("spread", 0.0, False), ("spread", 0.1, drawn))
        for drawn, way in WAYS.items()
    ]
    return _compared(study, doses, within=MARGIN)


@claim(REDUCTION)
def half_the_modules_cost(study: TrainedModels) -> Found:
    """where rules share modules evenly, half as many modules do worse at the same alignment."""
    evenly = {2: ("block", 2), 4: ("block", 4), 8: ("spread", 0.875)}
    doses = [
        (
            f"{size} modules over {size // 2} for {size} rules, {way}",
            (*even, drawn),
            ("collapsed", size, drawn),
        )
        for (drawn, way), (size, even) in product(WAYS.items(), evenly.items())
    ]
    return _compared(study, doses)


@claim(REDUCTION)
def drawn_costs_more(study: TrainedModels) -> Found:
    """a module drawn for every token costs more than all of them, mixed as they would be drawn."""
    both = with_doses(study).groupby(["matrix", "amount"])["drawn"].nunique()
    doses = [
        (f"soft over drawn, {matrix} {amount:g}", (matrix, amount, False), (matrix, amount, True))
        for matrix, amount in both[both == 2].index
    ]
    return _compared(study, doses)
