"""Claims about what misrouting costs, by models whose modules were trained under fixed routing."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product

import pandas as pd

from modtf.analysis.claims.evidence import Evidence, mean_evidence
from modtf.analysis.claims.registry import register_claim
from modtf.analysis.rows import IN, OUT
from modtf.analysis.trained import TrainedModels
from modtf.experiments.modarch.fixed_routing import CLAMPED, WAYS, Routing, fixed_rows, saved, trends

MARGIN = 0.15  # of the loss or error: ten tasks of the mlp resolve about 11 to 14%
NARROWER = {"rnn": 0.05}  # ten tasks resolve 3 to 4%
BLOCKS = (2, 4, 8)  # rules that share modules evenly
REDUCTION = "relative reduction of the loss or error"

claim = partial(register_claim, figure="misrouting", router=CLAMPED)


def _run(evidence: Iterable[Evidence]) -> list[Evidence]:
    """Return the evidence of what was run; if nothing was, all of it, so that it says what is missing."""
    asked = list(evidence)
    return [piece for piece in asked if piece.num_tasks] or asked


def _apart(study: TrainedModels) -> dict[str, pd.DataFrame]:
    """`fixed_rows`, in and out of distribution."""
    rows = fixed_rows(study)
    return {where: rows[rows["distribution"] == where] for where in (IN, OUT)}


def _compared(
    study: TrainedModels, compared: Iterable[tuple[str, Routing, Routing]], within: float | None = None
) -> list[Evidence]:
    apart = _apart(study)
    return _run(
        mean_evidence(
            saved(rows, first, second), "advantage", f"{name}, {where}", within=within, level=study.level
        )
        for name, first, second in compared
        for where, rows in apart.items()
    )


def _costs(study: TrainedModels, sampled: bool) -> list[Evidence]:
    """Return the slopes over all matrices but perfect routing."""
    apart = _apart(study)
    return _run(
        mean_evidence(trends(apart[where], matrix, sampled), "slope", f"{matrix}, {where}", level=study.level)
        for where, matrix in product(apart, ("spread", "block"))
    )


def _a_tenth(study: TrainedModels, sampled: bool) -> list[Evidence]:
    """Return what perfect routing saves over a tenth misrouted."""
    pairs = [("perfect over a tenth", ("spread", 0.0, False), ("spread", 0.1, sampled))]
    [arch] = study.results["arch"].unique()
    return _compared(study, pairs, within=NARROWER.get(str(arch), MARGIN))


def _halves(study: TrainedModels, sampled: bool) -> list[Evidence]:
    """Return what all modules save over half of them."""
    pairs = [
        (
            f"{size} modules over {size // 2} for {size} rules",
            ("block", size, sampled),
            ("collapsed", size, sampled),
        )
        for size in BLOCKS
    ]
    return _compared(study, pairs)


def _register(
    name: str, text: str, statistic: str, find: Callable[[TrainedModels, bool], list[Evidence]]
) -> None:
    """Register a claim of weighted and one of sampled routing; they often differ."""
    for sampled, way in WAYS.items():

        def judged(study: TrainedModels, sampled: bool = sampled) -> list[Evidence]:
            return find(study, sampled)

        claim(f"{name}_{way}", text=text.format(way=way), statistic=statistic)(judged)


_register(
    "misrouting_costs",
    "the farther a {way} routing is from the rules, the worse its modules perform",
    "slope of the logarithm of the loss or error over alignment, without perfect routing",
    _costs,
)
_register(
    "a_tenth_misrouted_is_cheap",
    "a tenth of {way} routing misrouted costs less than 15%, in the RNN than 5%",
    REDUCTION,
    _a_tenth,
)
_register(
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
    both = fixed_rows(study).groupby(["matrix", "amount"])["sampled"].nunique()
    pairs = [
        (f"weighted over sampled, {matrix} {amount:g}", (matrix, amount, False), (matrix, amount, True))
        for matrix, amount in both[both == 2].index
    ]
    return _compared(study, pairs)
