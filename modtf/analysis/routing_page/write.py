"""Writes the page, its pictures, its tables."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path

import pandas as pd

from modtf.analysis.figures.base import Picture, png_of
from modtf.analysis.report import page
from modtf.analysis.report.sections import measures_section
from modtf.analysis.routing_page import pictures, tables
from modtf.analysis.routing_page.tables import Names
from modtf.analysis.text import plural
from modtf.files import atomic_path, write_text
from modtf.metrics import GROUPS, LayerMeasures

PAGE = "measures.html"
READ = (
    "Everything is measured twice: by gate mass, the probability that modules are given, and by hard "
    "assignment, the modules that are chosen. In brackets: the confidence interval. chance: the mean under "
    "permuted labels, what is measured where modules know nothing of labels."
)
ADJUSTED = (
    "adjusted mutual information: what modules tell of labels beyond chance, as a share of what they could "
    "tell: 0 where they know nothing, 1 where they tell all."
)
BEYOND = (
    "For each label the modules in which it has the largest share, by hard assignment, of those with enough "
    "tokens and beyond chance: further above what permuted labels give, in their standard deviations, than "
    "the largest excess of any module of any layer in 95% of permutations."
)
MATRICES = (
    "Open a layer for its activation matrices p(module | label): labels downwards, modules to the right in "
    "the order of the labels most frequent where they are active, brighter is more. Left: as labelled. "
    "Right: one shuffled labelling in the same way, to compare with: its diagonal comes of the order alone."
)
Progress = Callable[[Sequence[LayerMeasures]], Iterable[LayerMeasures]]


def write_atlas(
    layers: Sequence[LayerMeasures],
    out: str | Path,
    names: Names | None = None,
    progress: Progress = iter,
    how: Sequence[str] = (),
) -> Path:
    """Writes measures.html, measures.csv, modules.csv, activation.csv, layers.png and labels.png.

    Args:
        layers: from `modtf.measure_activations`.
        out: the folder; it is made where there is none.
        names: of labels and layers; labels that came as names have these.
        progress: wraps the layers while they are shown, for example `tqdm`.
        how: sentences that the page begins with besides how layers were measured, which they know.

    Returns:
        The path of the page, which needs no other file.

    Raises:
        ValueError: if there is no layer.
        OSError: if `out` cannot be written.

    Example:
        >>> write_atlas(modtf.measure_activations(gates, labels), "atlas")  # doctest: +SKIP
        PosixPath('atlas/measures.html')
    """
    if not layers:
        raise ValueError("There is no layer; expected what modtf.measure_activations returns.")
    names, out = tables.names_of(layers, names), Path(out)
    frames = {
        "measures.csv": tables.measure_rows(layers, names),
        "modules.csv": tables.module_rows(layers, names),
        "activation.csv": tables.activation_rows(layers, names),
    }
    for file, frame in frames.items():
        with atomic_path(out / file) as temporary:
            frame.to_csv(temporary, index=False)
    sections = [_first_section(layers, names, how)]
    if layers[0].label_counts is not None:
        sections.append(page.Section("Layers", content=[_shown(pictures.draw_layers(layers, names), out)]))
        special = page.table(tables.special_modules(layers, names), "modules.csv")
        sections.append(page.Section("Most specialised modules", [BEYOND], content=[special]))
        drawn = [_shown(pictures.draw_labels(layers, names), out)]
        sections.append(page.Section("Labels", content=drawn))
    folds = [_fold(layer, names) for layer in progress(layers)]
    sections.append(page.Section("Each layer", [MATRICES], content=folds))
    sections.append(measures_section([group for group in GROUPS if group != "performance"], [ADJUSTED]))
    write_text(out / PAGE, page.render("modtf measure", sections))
    return out / PAGE


def _first_section(layers: Sequence[LayerMeasures], names: Names, how: Sequence[str]) -> page.Section:
    """What was measured, and what to know first."""
    first = layers[0]
    sizes = sorted({layer.mass.use.size for layer in layers})
    modules = plural(sizes[0], "module") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} modules"
    size = f"{plural(len(layers), 'layer')}, {modules}, {plural(len(first.labels), 'label')}"
    shown = []
    if first.label_counts is not None:
        size += f", {plural(int(first.label_counts.sum()) + first.dropped, 'token')}"
        labels = [names.label(int(number)) for number in first.labels]
        counts = pd.DataFrame({"label": labels, "tokens": first.label_counts})
        shown.append(page.table(counts.sort_values("tokens", ascending=False, kind="stable")))
    texts = [f"{size}.", *([first.how] if first.how else []), *how, READ]
    return page.Section("What was measured", texts, tables.warning_lines(layers, names), shown)


def _shown(picture: Picture, out: Path) -> str:
    png = png_of(picture)
    with atomic_path(out / f"{picture.name}.png") as temporary:
        temporary.write_bytes(png)
    return page.shown(picture, png, f"{picture.name}.png; measures.csv")


def _fold(layer: LayerMeasures, names: Names) -> str:
    """The markup of a line that shows a layer's matrices and measures when it is opened."""
    rows = pictures.shown_labels(layer)
    words = [escape(pictures.short(names.label(int(number)), int(number))) for number in layer.labels[rows]]
    title = escape(f"Layer {names.layer(layer.layer)}: {tables.in_brief(layer)}")
    parts = [f"<details><summary>{title}</summary>"]
    for view in layer.views:
        parts.append(
            f'<p class="small">{tables.BY[view.by]}</p><div class="pixels"><div>{"<br>".join(words)}</div>'
            f'<img src="data:image/png;base64,{pictures.pixels(view, rows)}" alt="{tables.BY[view.by]}" '
            f'style="height:{12 * len(rows)}px"></div>'
        )
    return "\n".join([*parts, page.table(tables.layer_table(layer), "measures.csv"), "</details>"])
