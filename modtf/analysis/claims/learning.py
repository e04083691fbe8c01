"""How far models have learned, and the task types whose verdicts would describe untrained models."""

import pandas as pd

from modtf.analysis.rows import IN, performance_rows
from modtf.analysis.trained import TrainedModels
from modtf.checks import check_number
from modtf.results.schema import KIND, MEMBER

HARDLY = 0.25  # models that lost a smaller share of their first loss or error hardly learned
ADVICE = f"The verdicts describe models that hardly learned; --least_learned={HARDLY:g} leaves them out."


def shares_learned(study: TrainedModels) -> pd.DataFrame:
    """Return the share of its first loss or error that the best variant lost in training.

    A variant counts by the median of its models. 0 says that nothing was learned, 1 that no loss is left.

    Returns:
        One row per task type and R: the columns of `KIND`, kind, num_rules, share. It has no rows without
        evaluations during training.
    """
    rows = performance_rows(study.history)
    rows = rows[rows["distribution"] == IN].sort_values("step")
    ends = rows.groupby([*MEMBER, "kind"], observed=True)["value"].agg(["first", "last"])
    left = (ends["last"] / ends["first"]).groupby([*KIND, "kind", "num_rules", "variant"], observed=True)
    best = left.median().groupby([*KIND, "kind", "num_rules"], observed=True).min()
    return (1 - best).rename("share").reset_index()


def rules_learned(study: TrainedModels, least: float) -> dict[tuple[str, ...], list[int]]:
    """Return the R of each task type at which the best variant learned a share of `least` or more."""
    check_number("least_learned", least, 0.0, 1.0)
    shares = shares_learned(study)
    learned = shares[shares["share"] >= least].set_index(list(KIND))["num_rules"]
    return {kind: learned[learned.index.isin([kind])].tolist() for kind in study.kinds}


def learning_words(study: TrainedModels, least: float) -> list[str]:
    """Return a line for every task type and R that was left out of the verdicts, or that hardly learned."""
    shares = shares_learned(study)
    hardly = shares[shares["share"] < max(least, HARDLY)]
    return [
        f"{kind}, R = {num_rules}: the best variant ended at {1 - share:.0%} of its first loss or error. "
        + ("Its models are left out of the verdicts." if share < least else ADVICE)
        for kind, num_rules, share in hardly[["kind", "num_rules", "share"]].itertuples(index=False)
    ]
