"""Every variant against one, on the same task and seed: who collapses less, and at what cost?"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures.averages import counts, lacking, note, sizes
from modtf.analysis.figures.base import NothingToDraw, Pictures
from modtf.analysis.figures.layout import panels
from modtf.analysis.figures.marks import dots, named_rows
from modtf.analysis.figures.style import Look
from modtf.analysis.labels import RANDOM, known_variants
from modtf.analysis.pairs import NO_CONDITION, against
from modtf.analysis.trained import TrainedModels
from modtf.metrics import MEASURES
from modtf.results import KIND

SAID = (
    "right of 0: better than {} on the same task and seed, by a share of the larger loss or error "
    "of both, or in the unit of the measure; filled: different from 0 after Holm's correction for the "
    "variants of a panel"
)
LONGEST = 2.0  # an axis reaches no further than this many times the largest mean


def pictures_against(study: TrainedModels, baseline: str) -> Pictures:
    """One picture per kind: a row for every variant, a column for every score, panels for every R.

    Raises:
        NothingToDraw: if there is nothing to compare.
    """
    if baseline not in study.variants:
        raise NothingToDraw(f"there is no {baseline} to compare with")
    table = against(study.results, baseline, study.level).dropna(subset="gain")
    if table.empty:
        raise NothingToDraw(f"no variant was run with {baseline} on the same task and seed")
    several = table["kind"].nunique() > 1
    for kind, part in table.groupby("kind", observed=True):
        part = part.assign(score=[_score(row) for row in part.itertuples()])
        variants = list(part["variant"].cat.remove_unused_categories().cat.categories)
        reach = _reach(part)
        # the names stand beside: routers beyond the families' need no look of their own
        known = [*known_variants(), RANDOM]
        mark = partial(_mark, variants=variants, reach=reach, alpha=1 - study.level, known=known)
        name = f"against_{baseline}" + f"_{kind}".replace(" ", "_").lower() * several
        title, size = f"Every variant against {baseline}, {kind}", (1.75, 0.5 + 0.2 * len(variants))
        text = _note(study, kind, part, reach, baseline)
        yield panels(mark, part, name, title, text, "num_rules", "score", size)


def _score(row: Any) -> str:
    """What a score is called, in one line and another: "Loss: in distribution", "Alignment: encoder"."""
    distribution, label = str(row.distribution), MEASURES[row.measure].axis_label
    second = getattr(row, "place", "") if distribution == NO_CONDITION else distribution
    return f"{label}: {second}" if second else label


def _reach(table: pd.DataFrame) -> dict[str, float]:
    """How far the axis of every score reaches on both sides."""
    means = table["gain"].abs().groupby(table["score"]).max()
    ends = table[["low", "high"]].abs().max(axis=1).groupby(table["score"]).max().fillna(0)
    return {name: 1.1 * max(mean, min(ends[name], LONGEST * mean)) + 0.01 for name, mean in means.items()}


def _note(
    study: TrainedModels, kind: str, part: pd.DataFrame, reach: Mapping[str, float], baseline: str
) -> str:
    rows = study.of_kind(*part[list(KIND)].iloc[0]).performance
    words = [SAID.format(baseline), counts(study, part, "pair"), *sizes(rows, ["kind", "num_rules"])]
    if (part[["low", "high"]].abs().max(axis=1) > part["score"].map(reach)).any():
        words.append("intervals are cut where a panel ends")
    expected = [name for name in known_variants([part["arch"].iloc[0]]) if name != baseline]
    scored = part[part["distribution"].astype(str) != NO_CONDITION]
    missing = lacking(scored, ["num_rules", "score"], expected)
    return note([*words, f"checkpoint {study.checkpoint}"], missing)


def _mark(
    axes: Axes,
    data: pd.DataFrame,
    looks: Mapping[str, Look],
    variants: list[str],
    reach: Mapping[str, float],
    alpha: float,
    known: list[str],
) -> None:
    for place, row in zip((variants.index(name) for name in data["variant"]), data.index, strict=True):
        one = data.loc[[row]]
        name, sure = one["variant"].iloc[0], one["p_corrected"].iloc[0] <= alpha
        look = looks[name] if name in known else Look("#000000", "o")
        dots(axes, one, [place], look, "gain", "low", "high", hollow=not sure)
    is_share = data["distribution"].iloc[0] != NO_CONDITION
    named_rows(axes, variants, reach[data["score"].iloc[0]], "{:+.0%}" if is_share else "{:+.2g}")
