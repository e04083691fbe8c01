"""From evidence to verdicts: per kind of task, then in words over kinds."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from modtf.analysis.claims.evidence import MOST_TASKS, Evidence
from modtf.analysis.claims.registry import CLAIMS, Claim
from modtf.analysis.intervals import LEVEL, MIN_TASKS, holm
from modtf.analysis.labels import kind_label, known_variants
from modtf.analysis.text import plural
from modtf.analysis.trained import CHOICES, TrainedModels
from modtf.checks import check_names
from modtf.families import is_one_of
from modtf.results.schema import KIND

SUPPORTED, CONTRADICTED, UNDECIDED = "supported", "contradicted", "undecided"
NOT_ENOUGH = "not enough runs"
DEPENDS = "depends on the checkpoint"
VERDICTS = (SUPPORTED, CONTRADICTED, UNDECIDED, NOT_ENOUGH, DEPENDS)
INITIALS = {SUPPORTED: "s", CONTRADICTED: "c", UNDECIDED: "u", NOT_ENOUGH: "-"}
LEGEND = "s supported, c contradicted, u undecided, - not enough runs; q: the false-discovery rate."
BESIDE = "beside"  # of evidence that is shown, and not judged
ORDER = {CONTRADICTED: 0, NOT_ENOUGH: 1, UNDECIDED: 2}  # the evidence that decided the verdict comes first
COLUMNS = ["claim", "text", "figure", "statistic", *KIND, "kind", "evidence", "value", "low", "high"]
COLUMNS += ["expected", "margin", "p_against", "p_against_corrected", "p_for", "num_tasks", "num_models"]
COLUMNS += ["num_missing", "evidence_verdict", "num_tasks_needed", "why"]


def judge_all(study: TrainedModels, names: Iterable[str] | None = None) -> pd.DataFrame:
    """The claims held against every kind of task of a study.

    A kind supports a claim if every number it stands on lies where the claim says, whole interval and all. It
    contradicts it if one lies on the other side, after Holm's correction for all the numbers of the claim in
    all kinds: each is another chance to fall there by accident. A claim says which variants count, those of
    the paper the published ones, and for which families it is meant. All is judged at every checkpoint that
    the results hold: where the verdicts differ, the word is that it depends on the checkpoint. One at which
    too little was measured, as many conditions are but once, has no say.

    Returns:
        One row per claim, kind and piece of evidence: claim, text, figure, statistic, the columns of `KIND`,
        kind, evidence, value, low, high, expected, margin, p_against, p_against_corrected, p_for, num_tasks,
        num_models, num_missing, evidence_verdict ("beside": shown, not judged), num_tasks_needed (about how
        many would decide what is undecided, infinite if over a thousand; else NaN), why: at the checkpoint of
        the study; then of the claim in this kind verdict_tail, verdict_last, ..., verdict, and q, the share
        of false ones among all supports that are no less sure (Benjamini and Hochberg), by the largest p_for.

    Raises:
        ValueError: if a claim is not registered, or none is named.
    """
    names = list(CLAIMS) if names is None else list(check_names("claims", names))
    if not names:
        raise ValueError(f"No claim was asked for; expected some of {', '.join(CLAIMS)}.")
    tables = {name: _judge_one(study.at(name), names) for name in study.checkpoints}
    judged = tables[study.checkpoint]
    found = {
        f"verdict_{name}": table.set_index(["claim", "kind"])["verdict"].groupby(level=[0, 1]).first()
        for name, table in tables.items()
    }
    judged = judged.join(pd.DataFrame(found), on=["claim", "kind"])
    told = judged[list(found)].replace(NOT_ENOUGH, np.nan)  # what was not measured there contradicts nothing
    same = told.nunique(axis=1) <= 1
    return judged.assign(verdict=judged.pop("verdict").where(same, DEPENDS), q=_false_discoveries(judged))


def _false_discoveries(judged: pd.DataFrame) -> pd.Series:
    """Over all claims and kinds together; a claim is as sure as the least sure number that it stands on."""
    ours = judged[judged["evidence_verdict"] != BESIDE]
    p = ours.groupby(["claim", "kind"])["p_for"].agg(lambda values: values.max(skipna=False)).dropna()
    q = pd.Series(stats.false_discovery_control(p) if len(p) else [], p.index, float, "q")
    return judged.join(q, on=["claim", "kind"])["q"]


def _judge_one(study: TrainedModels, names: Sequence[str]) -> pd.DataFrame:
    """At one checkpoint."""
    found: dict[str, list[tuple[tuple[str, ...], Evidence]]] = {name: [] for name in names}
    for kind in study.kinds:
        whole = study.of_kind(*kind)
        there, routers = {*known_variants(kind[:1]), *whole.variants}, set(whole.results["router"])
        parts: dict[Sequence[str] | None, TrainedModels] = {None: whole}
        for name in names:
            only, families = CLAIMS[name].variants, CLAIMS[name].families
            # one name alone may be another's
            meant = only is None or len(there & set(only)) >= min(2, len(only))
            meant = meant and CLAIMS[name].router in (None, *routers)
            if meant and (families is None or is_one_of(kind[0], families)):
                part = parts.get(only) or parts.setdefault(only, whole.of_variants(only or ()))
                pieces = list(CLAIMS[name].evidence(part))
                if all(piece.beside for piece in pieces):
                    pieces.append(Evidence("no such models"))
                found[name] += [(kind, piece) for piece in pieces]
    tables = [_judge(name, CLAIMS[name], found[name]) for name in names]
    return pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)


def _judge(name: str, claim: Claim, found: Sequence[tuple[tuple[str, ...], Evidence]]) -> pd.DataFrame:
    corrected = holm([math.nan if piece.beside else piece.p_against for _, piece in found])
    looks = sum(piece.is_enough and not piece.beside for _, piece in found)
    rows = []
    for (kind, piece), p in zip(found, corrected, strict=True):
        verdict, needed = _verdict(piece, p), math.nan
        if verdict == UNDECIDED:  # on the other side it can only come to be contradicted, which is corrected
            needed = piece.tasks_needed(looks if piece.margin < 0 else 1) or math.inf
        rows.append(
            (
                *(name, claim.text, claim.figure, claim.statistic, *kind, kind_label(*kind)),
                *(piece.name, piece.value, *piece.interval, piece.expected, piece.margin),
                *(piece.p_against, p, piece.p_for, piece.num_tasks, piece.num_models, piece.num_missing),
                *(verdict, needed, _why(piece, verdict, looks, needed)),
            )
        )
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.assign(verdict=table.groupby("kind")["evidence_verdict"].transform(combine))


def _verdict(piece: Evidence, p_corrected: float) -> str:
    if piece.beside:
        return BESIDE
    if not piece.is_enough:
        return NOT_ENOUGH
    if piece.supports:
        return SUPPORTED
    return CONTRADICTED if p_corrected <= (1 - piece.level) / 2 else UNDECIDED


def combine(verdicts: Iterable[str]) -> str:
    """Of a claim in a kind: contradicted if any is; supported if all are; else what is lacking."""
    return min((v for v in verdicts if v != BESIDE), key=lambda verdict: ORDER.get(verdict, 3))


def _why(piece: Evidence, verdict: str, looks: int, needed: float) -> str:
    if verdict == NOT_ENOUGH:
        return f"at least {MIN_TASKS} tasks are needed" if piece.num_tasks else piece.lacking
    if verdict != UNDECIDED:
        return ""
    tasks = f"about {needed:.0f}" if math.isfinite(needed) else f"more than {MOST_TASKS}"
    before = "the interval holds the border"
    if piece.p_against <= (1 - piece.level) / 2:  # it would contradict the claim, if it were the only look
        before = f"on the other side, but not after correction for {plural(looks, 'look')}"
    return f"{before}; {tasks} tasks would decide it"


def decisive(judged: pd.DataFrame) -> pd.DataFrame:
    """One row per claim and kind: the piece of evidence that decided its verdict, of `num_pieces`.

    A contradicting one, else one that is not sure, else the one nearest to the border.
    """
    judged = judged[judged["evidence_verdict"] != BESIDE]
    ranked = judged.assign(rank=judged["evidence_verdict"].map(ORDER).fillna(3))
    groups = ranked.groupby(["claim", "kind"], sort=False)
    first = ranked.assign(num_pieces=groups["claim"].transform("size"), order=groups.ngroup())
    first = first.sort_values(["order", "rank", "margin"], kind="stable").drop_duplicates(["claim", "kind"])
    return first.drop(columns=["rank", "order"]).reset_index(drop=True)


def in_words(judged: pd.DataFrame) -> pd.DataFrame:
    """One row per claim: claim, text, figure, words ("supported in 3 of 4 kinds; undecided in ...")."""
    claims = decisive(judged).groupby("claim", sort=False)
    rows = [(name, one["text"].iloc[0], one["figure"].iloc[0], _words(one)) for name, one in claims]
    return pd.DataFrame(rows, columns=["claim", "text", "figure", "words"])


def _words(claim: pd.DataFrame) -> str:
    kinds = {verdict: claim.loc[claim["verdict"] == verdict, "kind"].tolist() for verdict in VERDICTS}
    first, *others = sorted((v for v in VERDICTS if kinds[v]), key=lambda v: -len(kinds[v]))
    if len(claim) == 1:
        return f"{first} in {kinds[first][0]}"
    number = f"{len(kinds[first])} of" if others else "all"
    parts = [f"{first} in {number} {len(claim)} kinds"]
    return "; ".join([*parts, *(f"{verdict} in {', '.join(kinds[verdict])}" for verdict in others)])


def letters(row: pd.Series) -> str:
    """The verdicts at all checkpoints, "tail s, last s, best u, pooled u", and q where there is one."""
    found = [(name, row.get(f"verdict_{name}")) for name in CHOICES]
    said = ", ".join(f"{name} {INITIALS[verdict]}" for name, verdict in found if verdict in INITIALS)
    return said if math.isnan(row["q"]) else f"{said}; q {row['q']:.3f}"


def evidence_words(row: pd.Series, level: float) -> str:
    """The number that decided, its interval, what was expected, and why it did not decide."""
    if not math.isfinite(row["value"]):
        return row["why"]
    value = round(row["value"], 9)  # a correlation of 0 is none of 1e-17
    weakest = f" (weakest of {row['num_pieces']})" if row["num_pieces"] > 1 else ""
    interval = f", {level:.0%} interval {row['low']:.3g} to {row['high']:.3g}"
    interval *= not math.isnan(row["low"])
    said = [f"{row['evidence']}{weakest}: {value:.3g}{interval}, expected {row['expected']}, "]
    said[0] += plural(row["num_tasks"], "task")
    if row["num_missing"]:
        said.append(f"{plural(row['num_missing'], 'value')} lost to models that diverged")
    return "; ".join([*said, *([row["why"]] if row["why"] else []), letters(row)])


def print_claims(judged: pd.DataFrame, level: float = LEVEL) -> str:
    """Every claim with its verdict over kinds, then a line for each kind."""
    lines = []
    details = decisive(judged)
    width = max((len(kind) for kind in details["kind"]), default=0)
    for claim in in_words(judged).itertuples():
        lines += [f"{claim.text}  [{claim.figure}]", f"    {claim.words}"]
        for _, row in details[details["claim"] == claim.claim].iterrows():
            lines.append(f"    {row['kind']:<{width}}  {row['verdict']:<15}  {evidence_words(row, level)}")
    return "\n".join([*lines, *([LEGEND] if lines else [])])
