"""How far models have learned, and the task types whose verdicts would describe untrained models."""

import math

from modtf.analysis.labels import kind_label
from modtf.analysis.trained import TrainedModels
from modtf.base.checks import check_number
from modtf.results.schema import KIND

HARDLY = 0.25  # models that lost a smaller share of their first loss or error hardly learned
ADVICE = f"The verdicts describe models that hardly learned; --least_learned={HARDLY:g} leaves them out."
UNKNOWN = "fewer than two evaluations during training, so the share that the best variant learned is unknown."
SHOWN = ["kind", "num_rules", "share", "num_evaluations"]


def rules_learned(study: TrainedModels, least: float) -> dict[tuple[str, ...], list[int]]:
    """Return the R of each task type at which the best variant learned a share of `least` or more.

    Raise `ValueError` for models with fewer than two evaluations during training.
    """
    check_number("least_learned", least, 0.0, 1.0)
    shares, sizes = study.learned, [*KIND, "num_rules"]
    known = set(shares.loc[shares["num_evaluations"] > 1, sizes].itertuples(index=False, name=None))
    for *kind, num_rules in study.results[sizes].drop_duplicates().itertuples(index=False, name=None):
        if (*kind, num_rules) not in known:
            raise ValueError(
                f"least_learned={least!r}: {kind_label(*kind)} with R = {num_rules} has fewer than two "
                "evaluations during training, so the share that it learned is unknown. Leave this argument "
                "out."
            )
    learned = shares[shares["share"] >= least].set_index(list(KIND))["num_rules"]
    return {kind: learned[learned.index.isin([kind])].tolist() for kind in study.kinds}


def learning_words(study: TrainedModels, least: float) -> list[str]:
    """Return a line for every task type and R that was left out, hardly learned, or is unknown."""
    shares = study.learned
    hardly = shares[~(shares["share"] >= max(least, HARDLY))]
    lines = []
    for kind, num_rules, share, evaluations in hardly[SHOWN].itertuples(index=False):
        if evaluations < 2:
            lines.append(f"{kind}, R = {num_rules}: {UNKNOWN}")
            continue
        ended = f"the best variant ended at {1 - share:.0%} of its first loss or error."
        ended = "all models diverged." if math.isnan(share) else ended
        advice = ADVICE if share >= least or not least else "Its models are left out of the verdicts."
        lines.append(f"{kind}, R = {num_rules}: {ended} {advice}")
    return lines
