"""Verdicts in words: the number that decided each verdict, its unit, interval and certainty."""

import math

import pandas as pd

from modtf.analysis.claims.judge import BESIDE, INITIALS, ORDER, VERDICTS
from modtf.analysis.intervals import LEVEL
from modtf.analysis.pairs import as_ratio
from modtf.analysis.rows import CHOICES
from modtf.pages.text import percent_of, plural, with_interval

LEGEND = (
    "s supported, c contradicted, u undecided, - not enough runs; q: the false-discovery rate after "
    "Benjamini and Hochberg, BY: the same for tests with any dependence (Benjamini and Yekutieli)."
)


def decisive(judged: pd.DataFrame) -> pd.DataFrame:
    """Return one row per claim and task type: the evidence that decided the verdict, out of `num_pieces`.

    Contradicting evidence comes first, then uncertain evidence, then the number nearest to its border.
    """
    judged = judged[judged["evidence_verdict"] != BESIDE]
    ranked = judged.assign(rank=judged["evidence_verdict"].map(ORDER).fillna(3))
    groups = ranked.groupby(["claim", "kind"], sort=False)
    first = ranked.assign(num_pieces=groups["claim"].transform("size"), order=groups.ngroup())
    first = first.sort_values(["order", "rank", "margin"], kind="stable").drop_duplicates(["claim", "kind"])
    return first.drop(columns=["rank", "order"]).reset_index(drop=True)


def in_words(judged: pd.DataFrame) -> pd.DataFrame:
    """Return one row per claim: claim, text, figure, words ("supported in 3 of 4 kinds; undecided ...")."""
    claims = decisive(judged).groupby("claim", sort=False)
    rows = [(name, one["text"].iloc[0], one["figure"].iloc[0], _words(one)) for name, one in claims]
    return pd.DataFrame(rows, columns=["claim", "text", "figure", "words"])


def _words(claim: pd.DataFrame) -> str:
    kinds = {verdict: claim.loc[claim["verdict"] == verdict, "kind"].tolist() for verdict in VERDICTS}
    first, *others = sorted((v for v in VERDICTS if kinds[v]), key=lambda v: -len(kinds[v]))
    if len(claim) == 1:
        return f"{first} in {kinds[first][0]}"
    number = f"{len(kinds[first])} of" if others else "all"
    parts = [f"{first} in {number} {len(claim)} task types"]
    return "; ".join([*parts, *(f"{verdict} in {', '.join(kinds[verdict])}" for verdict in others)])


def letters(row: pd.Series) -> str:
    """Return the verdicts at all checkpoints, "tail s, last s, best u, pooled u", and q if there is one."""
    verdicts = [(name, row.get(f"verdict_{name}")) for name in CHOICES]
    listed = ", ".join(f"{name} {INITIALS[verdict]}" for name, verdict in verdicts if verdict in INITIALS)
    return listed if math.isnan(row["q"]) else f"{listed}; q {row['q']:.3f}, BY {row['q_by']:.3f}"


def number_words(row: pd.Series) -> str:
    """Return the number behind a verdict with its interval: a ratio of losses, or a number with its sign.

    Example:
        >>> number_words(pd.Series({"value": 0.2, "low": 0.1, "high": 0.25, "is_ratio": True}))
        '0.80 times (0.75 to 0.90)'
    """
    if row["is_ratio"]:
        value, high, low = map(as_ratio, (row["value"], row["low"], row["high"]))
        interval = "" if math.isnan(low) else f" ({low:.2f} to {high:.2f})"
        return f"{value:.2f} times{interval}"
    return with_interval(row["value"], row["low"], row["high"], "+.2f")


def evidence_words(row: pd.Series, level: float) -> str:
    """Return the decisive number, its unit and interval, the expected value, and why it did not decide."""
    if not math.isfinite(row["value"]):
        return row["why"]
    # Rounding turns a correlation of 1e-17 into 0.
    value, *ends = (round(row[name], 9) for name in ("value", "low", "high"))
    if row["is_ratio"]:
        value, *ends = (as_ratio(number) for number in (value, *ends[::-1]))
    weakest = f" (weakest of {row['num_pieces']})" if row["num_pieces"] > 1 else ""
    interval = f", {percent_of(level)} CI {ends[0]:.3g} to {ends[1]:.3g}"
    interval *= not math.isnan(row["low"])
    unit = " times the loss or error" if row["is_ratio"] else f" ({row['statistic']})"
    parts = [f"{row['evidence']}{weakest}: {value:.3g}{unit}{interval}, expected {row['expected']}, "]
    parts[0] += plural(row["num_tasks"], "task")
    if row["num_missing"]:
        parts.append(f"{plural(row['num_missing'], 'value')} missing because models diverged or collapsed")
    return "; ".join([*parts, *([row["why"]] if row["why"] else []), letters(row)])


def print_claims(judged: pd.DataFrame, level: float = LEVEL) -> str:
    """Return every claim with its verdict over task types, then a line for each task type."""
    lines = []
    details = decisive(judged)
    width = max((len(kind) for kind in details["kind"]), default=0)
    for claim in in_words(judged).itertuples():
        lines += [f"{claim.text}  [{claim.figure}]", f"    {claim.words}"]
        for _, row in details[details["claim"] == claim.claim].iterrows():
            lines.append(f"    {row['kind']:<{width}}  {row['verdict']:<15}  {evidence_words(row, level)}")
    return "\n".join([*lines, *([LEGEND] if lines else [])])
