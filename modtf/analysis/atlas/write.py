"""Writes an atlas: the page, its heat maps, its tables."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd

from modtf.analysis.atlas import tables
from modtf.analysis.atlas.pictures import draw_layer
from modtf.analysis.atlas.tables import Names
from modtf.analysis.figures.save import png_of
from modtf.analysis.report import page
from modtf.analysis.report.sections import measures_section
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
Progress = Callable[[Sequence[LayerMeasures]], Iterable[LayerMeasures]]


def write_atlas(
    layers: Sequence[LayerMeasures],
    out: str | Path,
    names: Names | None = None,
    progress: Progress = iter,
    how: Sequence[str] = (),
) -> Path:
    """Writes measures.html, measures.csv, modules.csv, activation.csv and a heat map of every layer.

    Args:
        layers: from `modtf.measure_activations`.
        out: the folder; it is made where there is none.
        names: of labels and layers.
        progress: wraps the layers while they are drawn, for example `tqdm`.
        how: sentences that the page begins with: where the activations are from, how they were measured.

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
    names, out = names or Names(), Path(out)
    frames = {
        "measures.csv": tables.measure_rows(layers, names),
        "modules.csv": tables.module_rows(layers, names),
        "activation.csv": tables.activation_rows(layers, names),
    }
    for file, frame in frames.items():
        with atomic_path(out / file) as temporary:
            frame.to_csv(temporary, index=False)
    shown = [_layer_section(layer, names, frames["modules.csv"], out) for layer in progress(layers)]
    what = measures_section([group for group in GROUPS if group != "performance"], [ADJUSTED])
    write_text(out / PAGE, page.render("modtf measure", [_first_section(layers, names, how), *shown, what]))
    return out / PAGE


def _first_section(layers: Sequence[LayerMeasures], names: Names, how: Sequence[str]) -> page.Section:
    """What was measured, and what to know first."""
    first = layers[0]
    num_labels, num_modules = first.mass.activation.shape
    size = f"{plural(len(layers), 'layer')}, {plural(num_modules, 'module')}, {plural(num_labels, 'label')}"
    shown = [page.Table.of(tables.glance_table(layers, names), "measures.csv")]
    if first.label_counts is not None:
        size += f", {plural(int(first.label_counts.sum()), 'token')}"
        labels = [names.label(int(number)) for number in first.labels]
        counts = pd.DataFrame({"label": labels, "tokens": first.label_counts})
        shown.append(page.Table.of(counts.sort_values("tokens", ascending=False, kind="stable")))
    warnings = tables.warning_lines(layers, names)
    return page.Section("What was measured", [f"{size}.", *how, READ], warnings, shown)


def _layer_section(layer: LayerMeasures, names: Names, modules: pd.DataFrame, out: Path) -> page.Section:
    picture = draw_layer(layer, names)
    png = png_of(picture)
    with atomic_path(out / f"{picture.name}.png") as temporary:
        temporary.write_bytes(png)
    own = modules[modules["layer"] == layer.layer].drop(columns=["layer", "layer_name"], errors="ignore")
    shown = [page.Table.of(tables.layer_table(layer), "measures.csv"), page.Table.of(own, "modules.csv")]
    drawn = [page.Shown.of(picture, png, f"{picture.name}.png; activation.csv")]
    title = f"Layer {names.layer(layer.layer)}"
    return page.Section(title, warnings=tables.warning_lines([layer], names), tables=shown, pictures=drawn)
