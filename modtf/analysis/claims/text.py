"""Judged claims, one line each."""

import math

import pandas as pd

from modtf.analysis.claims.base import CONTRADICTED, UNDECIDED

ORDER = {CONTRADICTED: 0, UNDECIDED: 1}  # the evidence that decided the verdict comes first


def claim_lines(judged: pd.DataFrame, level: float = 0.95) -> pd.DataFrame:
    """One row per claim: claim, figure, statistic, value, interval, expected, stands on, verdict.

    A claim on several numbers shows the one that decided its verdict: a contradicting one, else one that is
    not sure, else the one nearest to the bound.

    Args:
        judged: from `judge_all`.
        level: of the intervals.
    """
    rows = []
    for _, evidence in judged.groupby("claim", sort=False):
        rank = evidence["evidence_verdict"].map(ORDER).fillna(2)
        margin = (evidence["low"] / evidence["value"].abs()).fillna(-math.inf)
        decisive = evidence.assign(rank=rank, margin=margin).sort_values(["rank", "margin"]).iloc[0]
        name = decisive["evidence"]
        if len(evidence) > 1:
            name += f" (weakest of {len(evidence)})"
        rows.append(
            {
                "claim": decisive["text"],
                "figure": decisive["figure"],
                "statistic": f"{decisive['statistic']}: {name}",
                "value": _number(decisive["value"]),
                f"{level:.0%} interval": f"{_number(decisive['low'])} to {_number(decisive['high'])}",
                "expected": decisive["expected"],
                "tasks": int(decisive["num_tasks"]),
                "verdict": decisive["verdict"],
            }
        )
    return pd.DataFrame(rows)


def print_claims(lines: pd.DataFrame) -> str:
    """The rows of `claim_lines` as text, one line each."""
    interval = next(name for name in map(str, lines) if name.endswith("interval"))
    width = max(len(claim) for claim in lines["claim"])
    return "\n".join(
        f"{row['verdict']:<15}  {row['claim']:<{width}}  [{row['figure']}]  {row['statistic']} = "
        f"{row['value']}, {interval} {row[interval]}, expected {row['expected']}, {row['tasks']} tasks"
        for _, row in lines.iterrows()
    )


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "?"
