"""Writes the page, its heat maps, its tables."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from modtf.analysis.figures import Picture
from modtf.analysis.figures.base import png_of
from modtf.analysis.figures.matrices import NAMES, as_table, heat_maps
from modtf.analysis.report import page
from modtf.analysis.report.sections import measures_section
from modtf.analysis.routing_page import tables
from modtf.analysis.routing_page.tables import BY, Names
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
LETTERS = 24  # of a label's name
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
    shown = [page.table(tables.glance_table(layers, names), "measures.csv")]
    if first.label_counts is not None:
        size += f", {plural(int(first.label_counts.sum()), 'token')}"
        labels = [names.label(int(number)) for number in first.labels]
        counts = pd.DataFrame({"label": labels, "tokens": first.label_counts})
        shown.append(page.table(counts.sort_values("tokens", ascending=False, kind="stable")))
    warnings = tables.warning_lines(layers, names)
    return page.Section("What was measured", [f"{size}.", *how, READ], warnings, shown)


def _layer_section(layer: LayerMeasures, names: Names, modules: pd.DataFrame, out: Path) -> page.Section:
    picture = draw_layer(layer, names)
    png = png_of(picture)
    with atomic_path(out / f"{picture.name}.png") as temporary:
        temporary.write_bytes(png)
    own = modules[modules["layer"] == layer.layer].drop(columns=["layer", "layer_name"], errors="ignore")
    shown = [page.table(tables.layer_table(layer), "measures.csv"), page.table(own, "modules.csv")]
    drawn = [page.shown(picture, png, f"{picture.name}.png; activation.csv")]
    title = f"Layer {names.layer(layer.layer)}"
    return page.Section(title, warnings=tables.warning_lines([layer], names), content=[*shown, *drawn])


def draw_layer(layer: LayerMeasures, names: Names) -> Picture:
    """p(module | label) by gate mass and by hard assignment, modules in the order of their top labels."""
    rows = np.arange(len(layer.labels))
    note = "Rows: labels. Columns: modules, in the order of the labels most frequent where they are active."
    if layer.label_counts is not None and len(rows) > NAMES[0]:
        rows = np.sort(np.argsort(-layer.label_counts, kind="stable")[: NAMES[0]])
        note += f" The {NAMES[0]} most frequent of {len(layer.labels)} labels are shown."
    activation = layer.mass.activation
    modules = np.lexsort((-activation.max(axis=0), layer.mass.top_label))
    labels = [_short(names.label(int(number)), int(number)) for number in layer.labels[rows]]
    tables = []
    for view in layer.views:
        table = as_table(view.activation[np.ix_(rows, modules)], variant=BY[view.by])
        said = f"alignment {view.values['alignment'].value:.2f}"
        named = {"rule": _named(table["rule"], labels), "module": _named(table["module"], modules)}
        tables.append(table.assign(**named, said=said))
    largest = max(float(view.activation[rows].max()) for view in layer.views)
    height = float(np.clip(0.13 * len(rows) + 0.9, 2.0, 8.0))
    width = float(np.clip(0.17 * len(modules) + 0.9, 2.0, 6.4))
    name = f"activation_layer_{layer.layer}"
    title = f"Activation matrices, layer {names.layer(layer.layer)}"
    words = name, title, note, None, "variant", (width + 0.07 * max(map(len, labels)), height)
    return heat_maps(tables, *words, rows="label", largest=largest)


def _named(codes: pd.Series, names: list[str] | np.ndarray) -> pd.Categorical:
    """Numbers of rows or columns as what stands beside them, in their order."""
    return pd.Categorical.from_codes(codes.to_numpy(), categories=[str(name) for name in names], ordered=True)


def _short(name: str, number: int) -> str:
    """A name that fits beside a heat map and stays different from others."""
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 6]}... ({number})"
