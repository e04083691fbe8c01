"""How far models have learned, and the task types whose verdicts would describe untrained models."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from modtf.analysis.labels import kind_label
from modtf.analysis.rows import IN, performance_rows
from modtf.checks import check_number
from modtf.results.schema import KIND, MEMBER

if TYPE_CHECKING:
    from modtf.analysis.trained import TrainedModels

HARDLY = 0.25  # models that lost a smaller share of their first loss or error hardly learned
ADVICE = f"The verdicts describe models that hardly learned; --least_learned={HARDLY:g} leaves them out."


def shares_learned(study: "TrainedModels") -> pd.DataFrame:
    """Return the share of its first loss or error that the best variant lost in training.

    A variant counts by the median of its models, without those that diverged. 0 says that nothing was
    learned, 1 that no loss is left.

    Returns:
        One row per task type and R: the columns of `KIND`, kind, num_rules, share (NaN if all models
        diverged). It has no rows without evaluations during training.
    """
    rows = performance_rows(study.history)
    rows = rows[rows["distribution"] == IN].sort_values("step")
    models = rows.groupby([*MEMBER, "kind"], observed=True)["value"]
    with np.errstate(divide="ignore", invalid="ignore"):
        left = models.agg(lambda values: values.iloc[-1] / values.iloc[0])  # pandas' "last" would skip NaN
    left = left.where(np.isfinite(left)).groupby([*KIND, "kind", "num_rules", "variant"], observed=True)
    best = left.median().groupby([*KIND, "kind", "num_rules"], observed=True).min()
    return (1 - best).rename("share").reset_index()


def rules_learned(study: "TrainedModels", least: float) -> dict[tuple[str, ...], list[int]]:
    """Return the R of each task type at which the best variant learned a share of `least` or more.

    Raise `ValueError` for models without evaluations during training.
    """
    check_number("least_learned", least, 0.0, 1.0)
    shares, sizes = study.learned, [*KIND, "num_rules"]
    known = set(shares[sizes].itertuples(index=False, name=None))
    for *kind, num_rules in study.results[sizes].drop_duplicates().itertuples(index=False, name=None):
        if (*kind, num_rules) not in known:
            raise ValueError(
                f"least_learned={least!r}: {kind_label(*kind)} with R = {num_rules} has no evaluations "
                "during training, so the share that it learned is unknown. Leave this argument out."
            )
    learned = shares[shares["share"] >= least].set_index(list(KIND))["num_rules"]
    return {kind: learned[learned.index.isin([kind])].tolist() for kind in study.kinds}


def learning_words(study: "TrainedModels", least: float) -> list[str]:
    """Return a line for every task type and R that was left out of the verdicts, or that hardly learned."""
    shares = study.learned
    hardly = shares[~(shares["share"] >= max(least, HARDLY))]
    return [
        f"{kind}, R = {num_rules}: "
        + (
            f"the best variant ended at {1 - share:.0%} of its first loss or error. " * (share == share)
            or "all models diverged. "
        )
        + (ADVICE if share >= least or not least else "Its models are left out of the verdicts.")
        for kind, num_rules, share in hardly[["kind", "num_rules", "share"]].itertuples(index=False)
    ]
