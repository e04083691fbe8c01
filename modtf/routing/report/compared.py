"""The page on several models, or checkpoints of one, that routed the same tokens."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from modtf.base.files import write_table, write_text
from modtf.pages import page
from modtf.pages.pictures import Picture, start_at_zero
from modtf.pages.text import in_a_row, text_table
from modtf.routing.analyses.choices import check_same_tokens
from modtf.routing.analyses.registry import Analysed
from modtf.routing.drawing import GREY, draw_line, over_layers
from modtf.routing.measuring import Estimate
from modtf.routing.measuring.compare import Compared, Run
from modtf.routing.names import Names, paired_layers
from modtf.routing.report.findings import comparison_findings
from modtf.routing.report.tables import ADJUSTED
from modtf.routing.report.write import RANKED_MOST, WORDS, shown
from modtf.routing.routing import Routing

COMPARED = "comparison.html"
SHOWN = 12  # matched experts on the page; the file has all
ROUTER_SATURATION = "router_saturation"
READ = (
    "Each model is compared with the first. Differences are paired: their intervals leave out the same "
    "documents of both models."
)
DIFFERENCES = "Layers by hard assignment, the largest difference first; shared routing: matched choices."
MATCHED = (
    "Hard assignment. The experts of two models have no common names. They are matched one "
    "to one so that as many choices of tokens as possible agree (shared routing). Chance pairs "
    "every token with a token of another document."
)
SATURATED = (
    "The share of a token's experts that {}, the last of the files, chooses, too. Experts are compared by "
    "number, which is right for checkpoints of one training. Shared routing above matches experts instead."
)
SHARES = (
    "shared: the share of the tokens sent to an expert of the first model that are also sent to its match."
)


def check_comparable(routings: Sequence[Routing], paths: Sequence[str]) -> list[str]:
    """Return warnings about layers with different names.

    Raises:
        ValueError: if some of several files hold counts, or not the same tokens and layers as the first.
    """
    first, texts = routings[0], list[str]()
    for path, routing in zip(paths[1:], routings[1:], strict=True):
        check_same_tokens(routing, first, path, paths[0])
        layers, expected = routing.activations.shape[0], first.activations.shape[0]
        if layers != expected:
            raise ValueError(
                f"{path} has {layers} layers, but {paths[0]} has {expected}; expected the same layers in the "
                "same order."
            )
        for what, ours, theirs in (
            ("labels", routing.labels, first.labels),
            ("label names", routing.names.labels, first.names.labels),
            ("documents", routing.documents, first.documents),  # one may lack them
        ):
            if not np.array_equal(ours, theirs):  # type: ignore[arg-type]
                raise ValueError(
                    f"{path} and {paths[0]} have different {what}; expected the same tokens in the same "
                    "order. Run both models on the same texts."
                )
        if text := paired_layers(routing.names, first.names):
            texts.append(f"{path} and {paths[0]}: {text}")
    return texts


def write_comparison(
    runs: Sequence[Run], compared: Sequence[Compared], out: Path, names: Names,
    saturated: Mapping[str, Analysed] | None = None, warnings: Sequence[str] = (),
) -> Path:  # fmt: skip
    """Write comparison.html, its tables and its pictures, and return the path of the page.

    The first of the `runs` is compared with the others. `saturated` has for each run its router saturation
    against the last run, if this was asked for. `warnings` are from `check_comparable`.
    """
    picture = draw_comparison(runs, compared, names)
    table = picture.table.assign(layer=picture.table["layer"].map(names.layer))
    write_table(out / "comparison.csv", table)
    experts = matched_experts(runs, compared, names)
    write_table(out / "matched.csv", experts)
    links = page.Links("Reports:", [(f"{run.name}/measures.html", run.name) for run in runs])
    image = shown(picture, out, "comparison.csv")
    differences = page.Table(in_short(compared, names), "comparison.csv", RANKED_MOST)
    sections = [
        page.Section(
            "What was found",
            content=[page.Text(DIFFERENCES, small=True), differences, page.Text(MATCHED, small=True), image],
            findings=comparison_findings(compared, names),
        ),
        page.Section(
            "Data and warnings",
            [runs[0].measured[0].how, READ, *compared[0].warnings],
            warnings,
            content=[links],
        ),
        *saturation_sections(saturated or {}, runs[-1].name, out, names),
        page.Section("Matched experts", [SHARES], content=[page.Table(experts, "matched.csv", SHOWN)]),
        page.glossary_section(WORDS),
    ]
    title = f"modtf measure: {in_a_row([run.name for run in runs])}"
    write_text(out / COMPARED, page.render(title, sections))
    return out / COMPARED


def comparison_text(compared: Sequence[Compared], names: Names) -> str:
    """Return the differences as a table for the terminal, and the sentences about them."""
    table = in_short(compared, names).fillna("")
    text = text_table([name.replace(" ", "\n") for name in table], table.to_numpy().tolist())
    return "\n".join([text, "", DIFFERENCES, *comparison_findings(compared, names)])


def matched_experts(runs: Sequence[Run], compared: Sequence[Compared], names: Names) -> pd.DataFrame:
    """Return a row for each layer, run and expert of the first run: its match, and the share of tokens."""
    layers = {run.name: run.layers for run in runs}
    rows = []
    for one in compared:
        numbers, others = (layers[name][one.layer].module_numbers for name in (one.against, one.run))
        matched = np.where(one.experts < 0, -1, others[one.experts])  # -1: no match
        where = names.layer(one.layer), one.run, one.against
        rows += [(*where, *row) for row in zip(numbers, matched, one.overlap, strict=True)]
    return pd.DataFrame(rows, columns=["layer", "run", "against", "expert", "matched", "shared"])


def saturation_sections(
    saturated: Mapping[str, Analysed], last: str, out: Path, names: Names
) -> list[page.Section]:
    """Write saturation.csv and saturation.png of all runs, and return the section on them."""
    if not saturated:
        return []
    tables = [found.table.assign(run=run) for run, found in saturated.items()]
    table = pd.concat(tables, ignore_index=True)
    table = table.assign(layer_name=table["layer"].map(names.layer_name), last=last)
    write_table(out / "saturation.csv", table)
    table = table[table["measure"] == ROUTER_SATURATION]
    layers = table["layer"].drop_duplicates().tolist()
    title = f"Share of a token's experts that {last} chooses, too"
    figure, (axes,) = over_layers(layers, names, [title], 90)
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, len(saturated)))
    for (run, part), colour in zip(table.groupby("run", sort=False), colours, strict=True):
        draw_line(axes, layers, part, colour, str(run))
    axes.set_ylim(0, 1.02)
    axes.legend(frameon=False, fontsize=8)
    note = "Grey: 95% of independent choices at the same loads."
    picture = Picture("saturation", "Router saturation", note, figure, table)
    content = [shown(picture, out, "saturation.csv")]
    return [page.Section("Router saturation", [SATURATED.format(last)], content=content)]


def in_short(compared: Sequence[Compared], names: Names) -> pd.DataFrame:
    """Return a row per layer and run, by hard assignment: differences to look at first, the largest first."""
    rows = []
    for one in compared:
        differences = {name: one.differences["hard"].get(name) for name in (ADJUSTED, "effective_experts")}
        row = {"layer": names.layer(one.layer), "run": one.run}
        for name, found in differences.items():
            if found is not None and not np.isnan(found.value):
                interval = f" [{found.low:+.3f}, {found.high:+.3f}]" if np.isfinite(found.low) else ""
                row[name.replace("_", " ")] = f"{found.value:+.3f}{interval}"
        row |= {"shared routing": f"{one.shared.value:.3f}", "shared by chance": f"{one.shared.chance:.3f}"}
        sizes = [abs(found.value) for found in differences.values() if found is not None]
        rows.append((next((size for size in sizes if not np.isnan(size)), 0.0), row))
    return pd.DataFrame([row for _, row in sorted(rows, key=lambda pair: -pair[0])])


def draw_comparison(runs: Sequence[Run], compared: Sequence[Compared], names: Names) -> Picture:
    """Adjusted mutual information of all runs over layers, its differences to the first, shared routing."""
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, len(runs)))
    layers = sorted({one.layer for one in compared})
    places = np.arange(len(layers))
    has_labels = any(ADJUSTED in layer.hard.values for layer in runs[0].measured)
    measure = ADJUSTED if has_labels else "effective_experts"
    unknown = Estimate(np.nan)  # a layer that routes tokens of one label only
    words = measure.replace("_", " ").capitalize()
    titles = words, f"Difference to {runs[0].name}", "Shared routing (dotted: chance)"
    figure, (value, difference, shared) = over_layers(layers, names, titles, 30)
    for run, colour in zip(runs, colours, strict=True):
        measured = [layer.hard.values for layer in run.measured if layer.layer in layers]
        by_layer = [values.get(measure, unknown).value for values in measured]
        value.plot(places, by_layer, "o-", ms=3, color=colour, label=run.name)
        of_run = [one for one in compared if one.run == run.name]  # none of the first run
        _plot_intervals(difference, [one.differences["hard"].get(measure, unknown) for one in of_run], colour)
        _plot_intervals(shared, [one.shared for one in of_run], colour)
        shared.plot(places[: len(of_run)], [one.shared.chance for one in of_run], ":", color=GREY)
    difference.axhline(0, color=GREY, lw=1)
    start_at_zero(value)
    shared.set_ylim(0, 1.02)
    value.legend(frameon=False, fontsize=8)
    table = pd.DataFrame([row for one in compared for row in one.to_rows()])
    return Picture("comparison", "Layers", "By hard assignment.", figure, table)


def _plot_intervals(axes: Axes, by_layer: Sequence[Estimate], colour: Any) -> None:
    layers = range(len(by_layer))
    axes.plot(layers, [one.value for one in by_layer], "o-", ms=3, color=colour)
    ends = [one.low for one in by_layer], [one.high for one in by_layer]
    axes.vlines(layers, *ends, color=colour, alpha=0.6)
