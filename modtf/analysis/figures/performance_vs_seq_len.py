"""Loss or error against the length of the sequences; one figure per scale of the inputs and width."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures import Choice, NothingToDraw, Pictures, Study, lines, means, register_figure
from modtf.analysis.figures.rows import performance
from modtf.analysis.figures.style import GREY
from modtf.families import FAMILIES

NAME, TITLE = "performance_vs_seq_len", "Performance against sequence length"


@register_figure(NAME)
def draw(study: Study, choice: Choice) -> Pictures:
    """One picture per scale and width."""
    rows = performance(study.results, headline=False)
    families = {arch: FAMILIES[arch] for arch in rows["arch"].unique()}
    lengths = [
        (arch, condition.name, condition.seq_len or family.training_length, condition.scale)
        for arch, family in families.items()
        for condition in family.conditions
        if any(other.seq_len for other in family.conditions)
    ]
    known = pd.DataFrame(lengths, columns=["arch", "condition", "tokens", "scale"])
    rows = rows.merge(known.astype({name: rows[name].dtype for name in ("arch", "condition")}))
    if rows.empty:
        raise NothingToDraw("no family that is tested at several lengths was run")
    arch = rows.groupby("panel", observed=True)["arch"].first()

    def mark(axes: Axes, data: pd.DataFrame, looks: Any, x: str) -> None:
        lines(axes, data, looks, x)
        trained = families[arch[data["panel"].iloc[0]]].training_length
        axes.axvline(trained, color=GREY, linestyle=":", zorder=1)

    for (scale, width), part in rows.groupby(["scale", "width"]):
        drawn = (f"{NAME}_scale{scale:g}_e{width}", f"{TITLE}, inputs x {scale:g}, width {width}")
        said = "dotted: the training length"
        yield means(study, part, mark, "tokens", *drawn, said, row="panel", column="num_rules")
