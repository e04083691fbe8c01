"""Loss or error against the length of the sequences; one figure per scale and width."""

from collections.abc import Iterator

from modtf.analysis.figures.base import Choice, NothingToDraw, Picture
from modtf.analysis.figures.lines import draw_lines, performance_axis
from modtf.analysis.figures.notes import lacks, note, points_lack
from modtf.analysis.figures.panels import add_legend, make_grid
from modtf.analysis.figures.performance_vs_num_rules import label_performance
from modtf.analysis.figures.style import GREY, kinds_in, variants_in, with_labels
from modtf.results import CELL, Study, summarise
from modtf.analysis.performance import performance_rows
from modtf.task import TRAINING_LENGTH


def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture per scale and width."""
    rows = performance_rows(study.results, conditions=False)
    rows = rows[rows["seq_len"].notna()]
    if rows.empty:
        raise NothingToDraw("no mha or rnn cell was run; an mlp has no sequences")
    summary = summarise(rows, [*CELL, "measure", "scale", "seq_len"], bootstrap=study.bootstrap)
    summary = with_labels(summary.astype({"seq_len": int}))
    for (scale, width), part in summary.groupby(["scale", "width"]):
        kinds, variants = kinds_in(part), variants_in(part)
        rules = sorted(part["num_rules"].unique())
        lacking = lacks(part) + points_lack(part, ["kind", "num_rules"], "seq_len", "length")
        trained = f"dotted: the training length, {TRAINING_LENGTH}"
        text = note(study, part, f"width {width}", trained, "smaller is better", lacking=lacking)
        title = f"Performance against sequence length, inputs x {scale:g} (width {width})"
        columns = [f"R = {r}" for r in rules]
        grid = make_grid(kinds, columns, title, text, panel=(2.1, 1.7), x_label="Tokens", gaps=(0.45, 0.4))
        draw_lines(grid, part, ("kind", kinds), ("num_rules", rules), "seq_len", variants, performance_axis)
        for axes in grid.axes.flat:
            if axes.lines:
                axes.axvline(TRAINING_LENGTH, color=GREY, linestyle=":", linewidth=0.9, zorder=1)
        label_performance(grid.axes[:, 0], kinds)
        add_legend(grid.figure, variants)
        name = f"performance_vs_seq_len_scale{scale:g}_e{width}"
        yield Picture(name, title, text, grid.figure, part.drop(columns=["family", "kind"]))
