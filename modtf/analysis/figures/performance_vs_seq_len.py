"""Loss or error against the length of the sequences; one figure per scale of the inputs and width."""

from collections.abc import Iterator, Mapping

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures.averages import average
from modtf.analysis.figures.base import Choice, NothingToDraw, Picture
from modtf.analysis.figures.marks import lines
from modtf.analysis.figures.panels import panels
from modtf.analysis.figures.registry import register_figure
from modtf.analysis.figures.rows import performance
from modtf.analysis.figures.style import GREY, Look
from modtf.analysis.study import Study
from modtf.families import FAMILIES


@register_figure("performance_vs_seq_len")
def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture per scale and width."""
    rows = performance(study.results, headline=False)
    families = {arch: FAMILIES[arch] for arch in rows["arch"].unique()}
    conditions = [
        (arch, condition.name, condition.seq_len or family.training_length, condition.scale)
        for arch, family in families.items()
        for condition in family.conditions
        if any(other.seq_len for other in family.conditions)
    ]
    known = pd.DataFrame(conditions, columns=["arch", "condition", "tokens", "scale"])
    known = known.astype({name: rows[name].dtype for name in ("arch", "condition")})
    rows = rows.merge(known, on=["arch", "condition"])
    if rows.empty:
        raise NothingToDraw("no family that is tested at several lengths was run")
    for (scale, width), part in rows.groupby(["scale", "width"]):
        by = ["arch", "panel", "kind", "measure", "num_rules", "tokens", "variant"]
        table, note = average(study, part, by, "dotted: the training length")
        yield panels(
            _mark,
            table,
            name=f"performance_vs_seq_len_scale{scale:g}_e{width}",
            title=f"Performance against sequence length, inputs x {scale:g}, width {width}",
            note=note,
            row="panel",
            column="num_rules",
            x_label="Tokens",
        )


def _mark(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    lines("tokens")(axes, data, looks)
    axes.axvline(FAMILIES[data["arch"].iloc[0]].training_length, color=GREY, linestyle=":", zorder=1)
