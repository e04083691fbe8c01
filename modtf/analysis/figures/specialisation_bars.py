"""Collapse and specialisation by variant, averaged over the numbers of rules; one figure per width."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures.base import Choice, NothingToDraw, Picture
from modtf.analysis.figures.lines import bounded_axis
from modtf.analysis.figures.notes import averaged_over, lacks, note
from modtf.analysis.figures.panels import add_legend, empty_panel, make_grid
from modtf.analysis.figures.specialisation_lines import MEASURED, measured_rows
from modtf.analysis.figures.style import colour, kinds_in, variants_in, with_labels
from modtf.metrics import activation_measures
from modtf.results import Study, random_baseline, summarise

KIND = ["arch", "setting", "search", "width"]


def draw(study: Study, choice: Choice) -> Iterator[Picture]:
    """One picture per width."""
    rows = measured_rows(study)
    kept = shared_rules(rows)
    if kept.empty:
        raise NothingToDraw("no number of rules was run with all of the variants that are there")
    by = [*KIND, "variant", "measure", "scale", "seq_len"]
    summary = with_labels(summarise(kept, by, ["num_rules"], bootstrap=study.bootstrap))
    shared = with_labels(kept)
    rules = shared.groupby(["width", "kind"])["num_rules"].unique()
    known = {measure.name: measure for measure in activation_measures()}
    for width, part in summary.groupby("width"):
        kinds, variants = kinds_in(part), [*variants_in(part), "random"]
        names = [name for name in known if name in set(part["measure"])]
        over = {kind: tuple(sorted(rules[(width, kind)])) for kind in kinds}
        lacking = lacks(part, MEASURED)
        if len(kept) < len(rows):
            lacking.append("numbers of rules that not all variants were run with are left out")
        said = f"each bar a mean over R = {averaged_over(shared[shared['width'] == width], 'num_rules')}"
        text = note(study, part, f"width {width}", said, "0 is perfect", lacking=lacking).replace(
            "point", "bar", 1
        )
        title = f"Collapse and specialisation by variant (width {width})"
        labels = [known[name].axis_label for name in names]
        grid = make_grid(kinds, labels, title, text, panel=(2.0, 1.5), gaps=(0.4, 0.25))
        for r, kind in enumerate(kinds):
            random = random_baseline(over[kind]).groupby("measure")["value"].mean()
            for c, name in enumerate(names):
                axes = grid.panel(r, c)
                data = part[(part["kind"] == kind) & (part["measure"] == name)].set_index("variant")
                _bars(axes, data, float(random[name]), variants)
                if not data.empty:
                    bounded_axis(*known[name].range)(axes, data)
                    axes.set_ylim(bottom=0)
        add_legend(grid.figure, variants, bars=True)
        name = f"collapse_and_specialisation_bars_e{width}"
        yield Picture(name, title, text, grid.figure, part.drop(columns=["family", "kind"]))


def shared_rules(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows whose number of rules was run with every variant that their kind and width has."""
    wanted = rows.groupby(KIND)["variant"].transform("nunique")
    found = rows.groupby([*KIND, "num_rules"])["variant"].transform("nunique")
    return rows[wanted == found]


def _bars(axes: Axes, data: pd.DataFrame, random: float, variants: list[str]) -> None:
    if data.empty:
        empty_panel(axes)
        return
    axes.grid(False, axis="x")
    axes.set_xticks([])
    for place, name in enumerate(variants):
        if name == "random":
            axes.bar(place, random, color="none", edgecolor=colour(name, []), linestyle="--", width=0.75)
            _mark_zero(axes, place, random, colour(name, []))
        elif name in data.index:
            mean, low, high = data.loc[name, ["mean", "low", "high"]].astype(float)
            error = [[max(mean - low, 0)], [max(high - mean, 0)]] if np.isfinite(low) else None
            axes.bar(place, mean, yerr=error, color=colour(name, variants), width=0.75, capsize=2.5)
            _mark_zero(axes, place, mean, colour(name, variants))
        else:
            axes.text(place, 0.03, "not run", rotation=90, size=7.5, ha="center", va="bottom")


def _mark_zero(axes: Axes, place: int, value: float, tint: str) -> None:
    """A bar too low to be seen gets its number."""
    if abs(value) < 0.005:
        axes.annotate("0", (place, 0), (0, 2), textcoords="offset points", ha="center", size=8.5, color=tint)
