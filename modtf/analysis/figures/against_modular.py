"""Every variant against modular, on the same task and seed: who collapses less, and at what cost?"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.against import BASELINE, NO_CONDITION, against
from modtf.analysis.figures import Choice, NothingToDraw, Pictures, Study, note, panels, register_figure
from modtf.analysis.figures.averages import counts, sizes
from modtf.analysis.figures.marks import whiskers
from modtf.analysis.figures.style import GREY, PALETTE, Look
from modtf.analysis.performance import IN, OUT
from modtf.metrics import MEASURES

NAME, TITLE = f"against_{BASELINE}", f"Every variant against {BASELINE}"
OTHER = Look("#000000", "o")  # there are more routers than looks, and their names stand beside
SAID = (
    f"right of 0: better than {BASELINE} on the same task and seed, by a share of its loss or error, or in "
    "the unit of the measure; filled: different from 0 after Holm's correction for the variants of a panel"
)


@register_figure(NAME)
def draw(study: Study, choice: Choice) -> Pictures:
    """One picture per kind: a row for every variant, a column for every score, panels for every R."""
    table = against(study.results, BASELINE, study.level)
    if table.empty:
        raise NothingToDraw(f"no variant was run with {BASELINE} on the same task and seed")
    kinds = list(table["kind"].unique())
    for kind, own in table.groupby("kind", observed=True):
        named = [_score(*key) for key in zip(own["distribution"].astype(str), own["measure"], strict=True)]
        own = own.assign(score=named)
        rows = study.of_kind(*own[["arch", "setting", "task_options"]].iloc[0]).performance
        variants = [name for name in own["variant"].cat.categories if name in set(own["variant"])]
        words = [SAID, counts(study, own, "pair"), *sizes(rows.assign(kind=kind), ["kind", "num_rules"])]
        name = NAME if len(kinds) == 1 else f"{NAME}_{kind}".replace(" ", "_").lower()
        text = note([*words, f"checkpoint {study.checkpoint}"])
        mark = partial(_mark, variants=variants, limits=_limits(own), alpha=1 - study.level)
        size = (1.75, 0.5 + 0.2 * len(variants))
        yield panels(mark, own, name, f"{TITLE}, {kind}", text, "num_rules", "score", size)


def _score(distribution: str, measure: str) -> str:
    label = MEASURES[measure].axis_label
    where = {IN: "in distribution", OUT: "out of distribution"}
    return label if distribution == NO_CONDITION else f"{label}: {where[distribution]}"


def _limits(table: pd.DataFrame) -> dict[str, float]:
    """How far the axis of every score reaches on both sides, with room for intervals unless they are wide."""
    means = table.groupby("score")["gain"].agg(lambda gains: gains.abs().max())
    ends = table[["low", "high"]].abs().max(axis=1).groupby(table["score"]).max().fillna(0)
    return {name: 1.1 * max(mean, min(ends[name], 2 * mean)) + 0.01 for name, mean in means.items()}


def _mark(
    axes: Axes,
    data: pd.DataFrame,
    looks: Mapping[str, Look],
    variants: list[str],
    limits: Mapping[str, float],
    alpha: float,
) -> None:
    for row in data.itertuples():
        look = PALETTE.get(row.variant, OTHER)
        style: dict[str, Any] = {"color": look.colour, "marker": look.marker}
        filled = row.p_corrected <= alpha
        style |= {"markerfacecolor": style["color"] if filled else "white", "markersize": 4.5}
        style |= {"linestyle": "", "capsize": 2, "elinewidth": 1}
        length = whiskers(pd.DataFrame([row._asdict()]), "gain", "low", "high")
        axes.errorbar([row.gain], [variants.index(row.variant)], xerr=length, **style)
    limit, is_share = limits[data["score"].iloc[0]], data["distribution"].iloc[0] != NO_CONDITION
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set(xlim=(-limit, limit), ylim=(len(variants) - 0.5, -0.5))
    place = axes.get_subplotspec()
    is_first = place is None or place.is_first_col()
    axes.set_yticks(range(len(variants)), variants if is_first else [""] * len(variants))
    unit = "{:+.0%}" if is_share else "{:+.2g}"
    axes.xaxis.set_major_formatter(lambda value, _: unit.format(value) if abs(value) > 1e-9 else "0")
    axes.locator_params(axis="x", nbins=3)
