"""Claims about what misrouting costs, by models whose modules were trained under a routing that was given."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product

import pandas as pd

from modtf.analysis.claims.evidence import Evidence, mean_evidence
from modtf.analysis.claims.registry import register_claim
from modtf.analysis.rows import IN, OUT
from modtf.analysis.trained import TrainedModels
from modtf.experiments.modarch.given import GIVEN, WAYS, Dose, saved, trends, with_doses

MARGIN = 0.15  # of the loss or error: ten tasks of the mlp resolve about 11 to 14%
NARROWER = {"rnn": 0.05}  # ten tasks resolve 3 to 4%
BLOCKS = (2, 4, 8)  # rules that share modules evenly
REDUCTION = "relative reduction of the loss or error"

claim = partial(register_claim, figure="misrouting", router=GIVEN)


def _run(evidence: Iterable[Evidence]) -> list[Evidence]:
    """Return the evidence of what was run; if nothing was, all of it, so that it says what is missing."""
    asked = list(evidence)
    return [piece for piece in asked if piece.num_tasks] or asked


def _doses(study: TrainedModels) -> dict[str, pd.DataFrame]:
    """`with_doses`, in and out of distribution."""
    doses = with_doses(study)
    return {where: doses[doses["distribution"] == where] for where in (IN, OUT)}


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


def _costs(study: TrainedModels, drawn: bool) -> list[Evidence]:
    """Return the slopes over all matrices but perfect routing."""
    apart = _doses(study)
    return _run(
        mean_evidence(trends(apart[where], matrix, drawn), "slope", f"{matrix}, {where}", level=study.level)
        for where, matrix in product(apart, ("spread", "block"))
    )


def _a_tenth(study: TrainedModels, drawn: bool) -> list[Evidence]:
    """Return what perfect routing saves over a tenth misrouted."""
    doses = [("perfect over a tenth", ("spread", 0.0, False), ("spread", 0.1, drawn))]
    [arch] = study.results["arch"].unique()
    return _compared(study, doses, within=NARROWER.get(str(arch), MARGIN))


def _halves(study: TrainedModels, drawn: bool) -> list[Evidence]:
    """Return what all modules save over half of them."""
    doses = [
        (
            f"{size} modules over {size // 2} for {size} rules",
            ("block", size, drawn),
            ("collapsed", size, drawn),
        )
        for size in BLOCKS
    ]
    return _compared(study, doses)


def _apart(
    name: str, text: str, statistic: str, find: Callable[[TrainedModels, bool], list[Evidence]]
) -> None:
    """Register a claim of weighted and one of sampled routing; they often differ."""
    for drawn, way in WAYS.items():

        def judged(study: TrainedModels, drawn: bool = drawn) -> list[Evidence]:
            return find(study, drawn)

        claim(f"{name}_{way}", text=text.format(way=way), statistic=statistic)(judged)


_apart(
    "misrouting_costs",
    "the farther a {way} routing is from the rules, the worse its modules perform",
    "slope of the logarithm of the loss or error over alignment, without perfect routing",
    _costs,
)
_apart(
    "a_tenth_misrouted_is_cheap",
    "a tenth of {way} routing misrouted costs less than 15%, in the RNN than 5%",
    REDUCTION,
    _a_tenth,
)
_apart(
    "half_the_modules_cost",
    "where rules share modules evenly, half as many modules, {way}, do worse at the same alignment",
    REDUCTION,
    _halves,
)


@claim(
    "sampled_costs_more",
    text="one module sampled for each token costs more than all modules weighted by the same row",
    statistic=REDUCTION,
)
def sampled_costs_more(study: TrainedModels) -> list[Evidence]:
    """Return what weighted routing saves over sampled routing, for each matrix trained both ways."""
    both = with_doses(study).groupby(["matrix", "amount"])["drawn"].nunique()
    doses = [
        (f"weighted over sampled, {matrix} {amount:g}", (matrix, amount, False), (matrix, amount, True))
        for matrix, amount in both[both == 2].index
    ]
    return _compared(study, doses)
