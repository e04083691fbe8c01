"""The task types whose models have not learned, so that verdicts would describe untrained models."""

import math

from modtf.analysis.learned import LEARNED
from modtf.analysis.trained import TrainedModels
from modtf.results.schema import KIND

UNKNOWN = "fewer than two evaluations during training, so the share that the best variant learned is unknown."
LACKING = f"no variant has learned: each has over {LEARNED:.0%} of the best constant answer's loss or error"


def rules_learned(study: TrainedModels) -> dict[tuple[str, ...], list[int]]:
    """Return the R of each task type at which some variant has learned, or this is unknown."""
    learned = study.learned[study.learned["learned"]].set_index(list(KIND))["num_rules"]
    return {kind: learned[learned.index.isin([kind])].tolist() for kind in study.kinds}


def learning_words(study: TrainedModels) -> list[str]:
    """Return a line for every task type and R that has not learned, or for which this is unknown."""
    shares, lines = study.learned, []
    hardly = shares[~(shares["learned"] & shares["is_known"])]
    for kind, num_rules, share, known in hardly[["kind", "num_rules", "share", "is_known"]].itertuples(
        index=False
    ):
        ended = f"the best variant has {1 - share:.0%} of the best constant answer's loss or error."
        ended = "all models diverged." if math.isnan(share) else ended
        words = (
            f"{ended} Its models are left out of verdicts, rankings and correlations." if known else UNKNOWN
        )
        lines.append(f"{kind}, R = {num_rules}: {words}")
    return lines
