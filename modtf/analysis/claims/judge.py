"""Verdicts from evidence, for each task type, and task types that hardly learned."""

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd
from scipy import stats

from modtf.analysis.claims.evidence import MOST_TASKS, Evidence, shift_p
from modtf.analysis.claims.registry import CLAIMS, Claim
from modtf.analysis.intervals import LEVEL, MIN_TASKS, WEIGHTS, have_other_tasks, holm
from modtf.analysis.labels import kind_label, known_variants
from modtf.analysis.learned import LEARNED
from modtf.analysis.pairs import as_ratio
from modtf.analysis.rows import CHOICES
from modtf.analysis.trained import TrainedModels
from modtf.base.checks import check_names
from modtf.pages.text import percent_of, plural, with_interval
from modtf.results.schema import KIND
from modtf.tasks.families import is_one_of

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


UNKNOWN = (
    "how much the best variant has learned is unknown: fewer than two evaluations during training, or "
    "classes of unequal frequency."
)
LACKING = f"no variant has learned: each has over {LEARNED:.0%} of the best constant answer's loss or error"
SUPPORTED, CONTRADICTED, UNDECIDED = "supported", "contradicted", "undecided"
NOT_ENOUGH = "not enough runs"
DEPENDS = "differs between checkpoints"
VERDICTS = (SUPPORTED, CONTRADICTED, UNDECIDED, NOT_ENOUGH, DEPENDS)
INITIALS = {SUPPORTED: "s", CONTRADICTED: "c", UNDECIDED: "u", NOT_ENOUGH: "-"}
BESIDE = "beside"  # the verdict of evidence that is shown but not judged
MEASURED = {SUPPORTED, CONTRADICTED, UNDECIDED}
ORDER = {CONTRADICTED: 0, NOT_ENOUGH: 1, UNDECIDED: 2}  # the evidence that decided the verdict comes first
#: claim -> (kind, evidence)
ByClaim = dict[str, list[tuple[tuple[str, ...], Evidence]]]
COLUMNS = ["claim", "text", "figure", "statistic", *KIND, "kind", "evidence", "value", "low", "high"]
COLUMNS += ["expected", "margin", "p_against", "p_against_corrected", "p_for", "num_tasks", "num_models"]
COLUMNS += ["num_missing", "evidence_verdict", "num_tasks_needed", "why", "is_ratio"]


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


def judge_all(study: TrainedModels, names: Iterable[str] | None = None) -> pd.DataFrame:
    """Judge the claims for every task type of a study.

    A task type supports a claim if the whole interval of every number lies on the claimed side. It
    contradicts the claim if one number lies on the other side after Holm's correction over all numbers of
    the claim in all task types. A claim says which variants and families count; the claims of the paper use
    the published variants. Each claim is judged at every checkpoint of the results. The verdict is the one at
    the study's checkpoint, with one exception. If a number has another verdict at another checkpoint, and its
    shift is significant, the claim "differs between checkpoints". The shift is tested paired by task, with
    Holm's correction over all shifts of the table.

    Models of a task type at R rules are left out if no variant has learned, see `rules_learned`.

    Returns:
        One row per claim, task type and piece of evidence. At the study's checkpoint: claim, text, figure,
        statistic, the columns of `KIND`, kind, evidence, value, low, high, expected, margin, p_against,
        p_against_corrected, p_for, num_tasks, num_models, num_missing, evidence_verdict ("beside": shown,
        not judged), num_tasks_needed (about how many tasks would decide an undecided number, infinite if
        over 1,000; else NaN), why, is_ratio (the value is a relative reduction of a loss, printed as a
        ratio). For the claim in this task type: verdict_tail, verdict_last, ..., p_shift (of the most
        significant shift that changes a verdict), verdict, q and q_by. q is the false discovery rate among
        all supports that are at least as sure, by the largest p_for (Benjamini and Hochberg). q_by is the
        same after Benjamini and Yekutieli, which is valid for any dependence between the tests.

    Raises:
        ValueError: if a claim is not registered, or none is named.
    """
    names = list(CLAIMS) if names is None else list(check_names("claims", names))
    if not names:
        raise ValueError(f"No claim was requested; expected one or more of {', '.join(CLAIMS)}.")
    for line in weights_words(study):
        warnings.warn(line, stacklevel=2)
    parts = {name: study.at(name) for name in study.checkpoints}
    rules = rules_learned(study)
    found_at = {name: _find(part, names, rules) for name, part in parts.items()}
    tables = {name: _judge_one(evidence) for name, evidence in found_at.items()}
    judged = tables[study.checkpoint]
    evidence_at = {
        f"verdict_{name}": table.set_index(["claim", "kind"])["verdict"].groupby(level=[0, 1]).first()
        for name, table in tables.items()
    }
    judged = judged.join(pd.DataFrame(evidence_at), on=["claim", "kind"])
    judged = judged.join(_shifts(tables, found_at, study.checkpoint), on=["claim", "kind"])
    is_sure = judged["p_shift"] <= 1 - study.level
    return judged.assign(verdict=judged.pop("verdict").mask(is_sure, DEPENDS)).join(
        _false_discoveries(judged), on=["claim", "kind"]
    )


def weights_words(study: TrainedModels) -> list[str]:
    """Return a line for each task type in which a variant has different tasks at different sizes."""
    rows, kinds = study.results, study.results["kind"]
    return [
        f"Verdicts on {kind}: {WEIGHTS}."
        for kind in kinds.cat.categories
        if have_other_tasks(rows[kinds == kind], ["variant"], ["num_rules", "width"])
    ]


def _shifts(
    tables: Mapping[str, pd.DataFrame], found_at: Mapping[str, ByClaim], checkpoint: str
) -> pd.DataFrame:
    """Return p_shift of each claim and task type with a number that another checkpoint judges differently."""
    pieces = {name: list(_named(evidence)) for name, evidence in found_at.items()}
    verdicts = {name: table["evidence_verdict"].tolist() for name, table in tables.items()}
    compared = {
        key: (piece, verdict)
        for (key, piece), verdict in zip(pieces[checkpoint], verdicts[checkpoint], strict=True)
    }
    shifts = []
    for name in pieces:
        for (key, piece), verdict in zip(pieces[name], verdicts[name], strict=True):
            first, first_verdict = compared.get(key, (piece, verdict))
            if verdict != first_verdict and {verdict, first_verdict} <= MEASURED:
                shifts.append((*key[:2], shift_p(first, piece)))
    table = pd.DataFrame(shifts, columns=["claim", "kind", "p_shift"]).astype({"p_shift": float})
    table["p_shift"] = holm(table["p_shift"].tolist())
    return table.groupby(["claim", "kind"])[["p_shift"]].min()


def _named(by_claim: ByClaim) -> Iterator[tuple[tuple[str, str, str], Evidence]]:
    for name, pieces in by_claim.items():
        for kind, piece in pieces:
            yield (name, kind_label(*kind), piece.name), piece


def _false_discoveries(judged: pd.DataFrame) -> pd.DataFrame:
    """Return q and q_by over all claims and task types; a claim is as sure as its least sure number."""
    tested = judged[judged["evidence_verdict"] != BESIDE]
    p = tested.groupby(["claim", "kind"])["p_for"].agg(lambda values: values.max(skipna=False)).dropna()
    methods = {"q": "bh", "q_by": "by"}
    rates = {
        name: stats.false_discovery_control(p, method=method) if len(p) else []
        for name, method in methods.items()
    }
    return pd.DataFrame(rates, p.index, dtype=float)


def _find(
    study: TrainedModels, names: Sequence[str], rules: Mapping[tuple[str, ...], Sequence[int]]
) -> ByClaim:
    """Return the evidence for each claim, of each kind of task."""
    by_claim: ByClaim = {name: [] for name in names}
    for kind in study.kinds:
        whole = study.part(*kind)
        whole = whole.part(num_rules=rules[kind]) if rules[kind] else whole
        variants, routers = {*known_variants(kind[:1]), *whole.variants}, set(whole.results["router"])
        parts: dict[Sequence[str] | None, TrainedModels] = {None: whole}
        for name in names:
            only, families = CLAIMS[name].variants, CLAIMS[name].families
            # variants of different families may share a name, so one match of several is not enough
            meant = only is None or len(variants & set(only)) >= min(2, len(only))
            meant = meant and CLAIMS[name].router in (None, *routers)
            if meant and (families is None or is_one_of(kind[0], families)):
                if only not in parts:
                    parts[only] = whole.part(variant=[one for one in whole.variants if one in (only or ())])
                part = parts[only]
                pieces = (
                    list(CLAIMS[name].evidence(part)) if rules[kind] else [Evidence("all", lacking=LACKING)]
                )
                if all(piece.shown_only for piece in pieces):
                    pieces.append(Evidence("no such models"))
                by_claim[name] += [(kind, piece) for piece in pieces]
    return by_claim


def _judge_one(by_claim: ByClaim) -> pd.DataFrame:
    """Return the verdicts at one checkpoint."""
    tables = [_judge(name, CLAIMS[name], pieces) for name, pieces in by_claim.items()]
    return pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)


def _judge(name: str, claim: Claim, evidence: Sequence[tuple[tuple[str, ...], Evidence]]) -> pd.DataFrame:
    corrected = holm([math.nan if piece.shown_only else piece.p_against for _, piece in evidence])
    looks = sum(piece.is_enough and not piece.shown_only for _, piece in evidence)
    rows = []
    for (kind, piece), p in zip(evidence, corrected, strict=True):
        verdict, needed = _verdict(piece, p), math.nan
        if verdict == UNDECIDED:  # on the other side only a contradiction is possible, which is corrected
            needed = piece.tasks_needed(looks if piece.margin < 0 else 1) or math.inf
        rows.append(
            (
                *(name, claim.text, claim.figure, claim.statistic, *kind, kind_label(*kind)),
                *(piece.name, piece.value, *piece.interval, piece.expected, piece.margin),
                *(piece.p_against, p, piece.p_for, piece.num_tasks, piece.num_models, piece.num_missing),
                *(verdict, needed, _why(piece, verdict, looks, needed), piece.is_ratio),
            )
        )
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.assign(verdict=table.groupby("kind")["evidence_verdict"].transform(combine))


def _verdict(piece: Evidence, p_corrected: float) -> str:
    if piece.shown_only:
        return BESIDE
    if not piece.is_enough:
        return NOT_ENOUGH
    if piece.supports:
        return SUPPORTED
    return CONTRADICTED if p_corrected <= (1 - piece.level) / 2 else UNDECIDED


def combine(verdicts: Iterable[str]) -> str:
    """Combine the verdicts of a claim: contradicted if any is, supported if all are, else the missing one."""
    return min((v for v in verdicts if v != BESIDE), key=lambda verdict: ORDER.get(verdict, 3))


def _why(piece: Evidence, verdict: str, looks: int, needed: float) -> str:
    if verdict == NOT_ENOUGH:
        return f"at least {MIN_TASKS} tasks are needed" if piece.num_tasks else piece.lacking
    if verdict != UNDECIDED:
        return ""
    tasks = f"about {needed:.0f}" if math.isfinite(needed) else f"more than {MOST_TASKS}"
    before = "the interval contains the border"
    if piece.p_against <= (1 - piece.level) / 2:  # without the correction it would contradict the claim
        before = f"the interval is on the other side, but not after correction for {plural(looks, 'look')}"
    return f"{before}; {tasks} fresh tasks would decide it"
