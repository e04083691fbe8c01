"""Judged claims in words."""

import math

import pandas as pd

from modtf.analysis.claims.judge import CONTRADICTED, NOT_ENOUGH, UNDECIDED, VERDICTS
from modtf.analysis.contents import plural

ORDER = {CONTRADICTED: 0, NOT_ENOUGH: 1, UNDECIDED: 2}  # the evidence that decided the verdict comes first


def decisive(judged: pd.DataFrame) -> pd.DataFrame:
    """One row per claim and kind: the piece of evidence that decided its verdict.

    A contradicting one, else one that is not sure, else the one nearest to the border.

    Returns:
        The columns of `judged`, and `num_pieces`, of which it is the weakest.
    """
    ranked = judged.assign(rank=judged["evidence_verdict"].map(ORDER).fillna(3))
    groups = ranked.groupby(["claim", "kind"], sort=False)
    first = ranked.assign(num_pieces=groups["claim"].transform("size"), order=groups.ngroup())
    first = first.sort_values(["order", "rank", "margin"], kind="stable").drop_duplicates(["claim", "kind"])
    return first.drop(columns=["rank", "order"]).reset_index(drop=True)


def in_words(judged: pd.DataFrame) -> pd.DataFrame:
    """One row per claim: claim, text, figure, words ("supported in 3 of 4 kinds; undecided in ...")."""
    rows = []
    for name, claim in decisive(judged).groupby("claim", sort=False):
        rows.append((name, claim["text"].iloc[0], claim["figure"].iloc[0], _words(claim)))
    return pd.DataFrame(rows, columns=["claim", "text", "figure", "words"])


def _words(claim: pd.DataFrame) -> str:
    kinds = {verdict: claim.loc[claim["verdict"] == verdict, "kind"].tolist() for verdict in VERDICTS}
    found = sorted((v for v in VERDICTS if kinds[v]), key=lambda v: -len(kinds[v]))
    if len(claim) == 1:
        return f"{found[0]} in {claim['kind'].iloc[0]}"
    if len(found) == 1:
        return f"{found[0]} in all {len(claim)} kinds"
    first, *others = found
    parts = [f"{first} in {len(kinds[first])} of {len(claim)} kinds"]
    return "; ".join([*parts, *(f"{verdict} in {', '.join(kinds[verdict])}" for verdict in others)])


def evidence_words(row: pd.Series, level: float) -> str:
    """The number that decided, its interval, what was expected, and why it did not decide."""
    if not math.isfinite(row["value"]):
        return row["why"]
    value = round(row["value"], 9)  # a correlation of 0 is none of 1e-17
    weakest = f" (weakest of {row['num_pieces']})" if row["num_pieces"] > 1 else ""
    interval = (
        "" if math.isnan(row["low"]) else f", {level:.0%} interval {row['low']:.3g} to {row['high']:.3g}"
    )
    lost = (
        f"; {plural(row['num_missing'], 'value')} lost to models that diverged" if row["num_missing"] else ""
    )
    why = f"; {row['why']}" if row["why"] else ""
    return (
        f"{row['evidence']}{weakest}: {value:.3g}{interval}, expected {row['expected']}, "
        f"{plural(row['num_tasks'], 'task')}{lost}{why}"
    )


def print_claims(judged: pd.DataFrame, level: float = 0.95) -> str:
    """Every claim with its verdict over kinds, then a line for each kind.

    Args:
        judged: from `judge_all`.
        level: of its intervals.
    """
    lines = []
    details = decisive(judged)
    width = max((len(kind) for kind in details["kind"]), default=0)
    for claim in in_words(judged).itertuples():
        lines += [f"{claim.text}  [{claim.figure}]", f"    {claim.words}"]
        for _, row in details[details["claim"] == claim.claim].iterrows():
            lines.append(f"    {row['kind']:<{width}}  {row['verdict']:<15}  {evidence_words(row, level)}")
    return "\n".join(lines)
