"""Every variant against modular, on the same task and seed: who collapses less, and at what cost?"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.baseline import BASELINE, NO_CONDITION, against
from modtf.analysis.figures import Choice, NothingToDraw, Pictures, Study, note, panels, register_figure
from modtf.analysis.figures.averages import counts, lacking, sizes
from modtf.analysis.figures.marks import named_rows, whiskers
from modtf.analysis.figures.style import GREY, PALETTE, Look
from modtf.metrics import MEASURES
from modtf.results import KIND, VARIANTS

NAME, TITLE = f"against_{BASELINE}", f"Every variant against {BASELINE}"
OTHER = Look("#000000", "o")  # there are more routers than looks, and their names stand beside
SAID = (
    f"right of 0: better than {BASELINE} on the same task and seed, by a share of the larger loss or error "
    "of both, or in the unit of the measure; filled: different from 0 after Holm's correction for the "
    "variants of a panel"
)
LONGEST = 2.0  # an axis reaches no further than this many times the largest mean


@register_figure(NAME)
def draw(study: Study, choice: Choice) -> Pictures:
    """One picture per kind: a row for every variant, a column for every score, panels for every R."""
    if BASELINE not in study.variants:
        raise NothingToDraw(f"there is no {BASELINE} to compare with")
    table = against(study.results, BASELINE, study.level).dropna(subset="gain")
    if table.empty:
        raise NothingToDraw(f"no variant was run with {BASELINE} on the same task and seed")
    kinds = list(table["kind"].unique())
    for kind, own in table.groupby("kind", observed=True):
        own = own.assign(score=[_score(row.measure, str(row.distribution)) for row in own.itertuples()])
        reach = _reach(own)
        variants = list(own["variant"].cat.remove_unused_categories().cat.categories)
        name = NAME if len(kinds) == 1 else f"{NAME}_{kind}".replace(" ", "_").lower()
        mark = partial(_mark, variants=variants, reach=reach, alpha=1 - study.level)
        size = (1.75, 0.5 + 0.2 * len(variants))
        text = _note(study, kind, own, reach)
        yield panels(mark, own, name, f"{TITLE}, {kind}", text, "num_rules", "score", size)


def _score(measure: str, distribution: str) -> str:
    label = MEASURES[measure].axis_label
    return label if distribution == NO_CONDITION else f"{label}: {distribution}"


def _reach(table: pd.DataFrame) -> dict[str, float]:
    """How far the axis of every score reaches on both sides."""
    means = table["gain"].abs().groupby(table["score"]).max()
    ends = table[["low", "high"]].abs().max(axis=1).groupby(table["score"]).max().fillna(0)
    return {name: 1.1 * max(mean, min(ends[name], LONGEST * mean)) + 0.01 for name, mean in means.items()}


def _note(study: Study, kind: str, own: pd.DataFrame, reach: Mapping[str, float]) -> str:
    rows = study.of_kind(*own[list(KIND)].iloc[0]).performance.assign(kind=kind)
    words = [SAID, counts(study, own, "pair"), *sizes(rows, ["kind", "num_rules"])]
    if (own[["low", "high"]].abs().max(axis=1) > own["score"].map(reach)).any():
        words.append("intervals are cut where a panel ends")
    performance = own[own["distribution"].astype(str) != NO_CONDITION]
    expected = [name for name in VARIANTS if name != BASELINE]
    missing = lacking(performance, ["num_rules", "score"], expected)
    return note([*words, f"checkpoint {study.checkpoint}"], missing)


def _mark(
    axes: Axes,
    data: pd.DataFrame,
    looks: Mapping[str, Look],
    variants: list[str],
    reach: Mapping[str, float],
    alpha: float,
) -> None:
    lengths = whiskers(data, "gain", "low", "high").T
    for row, length in zip(data.itertuples(), lengths, strict=True):
        look = PALETTE.get(row.variant, OTHER)
        filled = row.p_corrected <= alpha
        style: dict[str, Any] = {"color": look.colour, "marker": look.marker, "markersize": 4.5}
        style |= {"markerfacecolor": look.colour if filled else "white", "elinewidth": 1}
        place = variants.index(row.variant)
        axes.errorbar([row.gain], [place], xerr=length[:, None], linestyle="", capsize=2, **style)
    end, is_share = reach[data["score"].iloc[0]], data["distribution"].iloc[0] != NO_CONDITION
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_xlim(-end, end)
    named_rows(axes, variants)
    unit = "{:+.0%}" if is_share else "{:+.2g}"
    axes.xaxis.set_major_formatter(lambda value, _: unit.format(value) if abs(value) > 1e-9 else "0")
    axes.locator_params(axis="x", nbins=3)
