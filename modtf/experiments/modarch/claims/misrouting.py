"""Claims about what misrouting costs, by models whose modules were trained under a routing that was given."""

from collections.abc import Iterator
from functools import partial
from itertools import product

from modtf.analysis.claims.evidence import Evidence, mean_evidence
from modtf.analysis.claims.registry import documented_claim
from modtf.analysis.rows import IN, OUT
from modtf.analysis.trained import TrainedModels
from modtf.experiments.modarch.given import GIVEN, Dose, saved, trends, with_doses

MARGIN = 0.15  # of the loss or error: ten tasks of the mlp resolve some 11 to 14%
REDUCTION = "relative reduction of the loss or error"
WAYS = {"soft": False, "drawn": True}

Found = Iterator[Evidence]
claim = partial(documented_claim, "misrouting", router=GIVEN)


@claim("slope of the log loss or error over alignment")
def misrouting_costs(study: TrainedModels) -> Found:
    """the farther a routing that is given is from the rules, the worse its modules perform."""
    doses = with_doses(study)
    for where, matrix, (way, drawn) in product((IN, OUT), ("spread", "block"), WAYS.items()):
        found = trends(doses[doses["distribution"] == where], matrix, drawn)
        yield mean_evidence(found, "slope", f"{matrix}, {way}, {where}", level=study.level)


def _compared(study: TrainedModels, name: str, first: Dose, second: Dose, **within: float) -> Found:
    doses = with_doses(study)
    for where in (IN, OUT):
        pairs = saved(doses[doses["distribution"] == where], first, second)
        yield mean_evidence(pairs, "advantage", f"{name}, {where}", level=study.level, **within)


@claim(REDUCTION)
def a_tenth_misrouted_is_cheap(study: TrainedModels) -> Found:
    """a tenth of the tokens, or of every token, misrouted costs less than 15%."""
    for way, drawn in WAYS.items():
        perfect, tenth = ("spread", 0.0, False), ("spread", 0.1, drawn)
        yield from _compared(study, f"perfect over a tenth, {way}", perfect, tenth, within=MARGIN)


@claim(REDUCTION)
def half_the_modules_cost(study: TrainedModels) -> Found:
    """where rules share modules evenly, half as many modules do worse at the same alignment."""
    for way, drawn in WAYS.items():
        for size, even in {2: ("block", 2), 4: ("block", 4), 8: ("spread", 0.875)}.items():
            name = f"{size} modules over {size // 2} for {size} rules, {way}"
            yield from _compared(study, name, (*even, drawn), ("collapsed", size, drawn))


@claim(REDUCTION)
def drawn_costs_more(study: TrainedModels) -> Found:
    """a module drawn for every token costs more than all of them, mixed as they would be drawn."""
    doses = with_doses(study)
    both = doses.groupby(["matrix", "amount"])["drawn"].nunique()
    for matrix, amount in both[both == 2].index:
        name = f"soft over drawn, {matrix} {amount:g}"
        yield from _compared(study, name, (matrix, amount, False), (matrix, amount, True))
