"""Writes the page, its pictures (curves over layers, labels over layers, a pixel a cell) and its tables."""

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from modtf.base.checks import check_path
from modtf.base.files import atomic_path, write_table, write_text
from modtf.metrics import GROUPS, activation_measures
from modtf.pages import page
from modtf.pages.glossary import glossary_section, measures_section
from modtf.pages.pictures import HEAT, Picture, png_of
from modtf.pages.text import plural
from modtf.routing.analyses import Analysed
from modtf.routing.drawing import GREY, over_layers
from modtf.routing.measuring import LayerMeasures, View
from modtf.routing.names import Names
from modtf.routing.report import tables
from modtf.routing.report.findings import findings
from modtf.routing.report.labels import draw_labels, label_counts, short, shown_labels
from modtf.routing.report.tables import ADJUSTED, BY

PAGE = "measures.html"
LAYERS = (
    "How much information the modules of each layer carry about labels, and how evenly they are used. Above "
    "the grey band, modules specialise more than chance."
)
BEYOND = (
    "For each label, the modules in which it has the largest share, by hard assignment. A module is listed "
    "if it has enough tokens and its excess over permuted labels, in standard deviations, is larger than the "
    "largest excess of any module of any layer in 95% of permutations."
)
LABELS = "How much information the chosen module carries about each label, in each layer; and label counts."
COUNTS = "How many tokens each label has."
MATRICES = (
    "Open a layer to see its activation matrices, p(module | label). Rows are labels. Columns are modules, "
    "ordered by their most frequent label. Brighter is more."
)
SHUFFLED = (
    "The left matrix has the labels as they are; the right one has shuffled labels: its diagonal comes from "
    "the order alone."
)
WORDS = {
    "gate mass": "Counts a token for every module, weighted by the probability that the router gives it.",
    "hard assignment": "Counts a token for the modules that it is sent to.",
    "chance": "The mean under permuted labels, the value for modules that carry no information about labels. "
    "Square brackets behind a value hold its confidence interval.",
    "adjusted mutual information": "Information that modules carry about labels beyond chance, as a share of "
    "the most they could carry: 0 is none, 1 is all.",
    "load": "The share of tokens that a module answers. The figure shows the effective number of modules "
    "divided by the number of modules: 1 is even.",
}
GAP = 4  # modules between two matrices
COLOUR = {"mass": "#0072B2", "hard": "#D55E00"}


def write_routing_report(
    layers: Sequence[LayerMeasures],
    out: str | Path,
    names: Names | None = None,
    more: Sequence[page.Section] = (),
    about: str = "",
    analysed: Mapping[str, Analysed] | None = None,
) -> Path:
    """Writes measures.html, measures.csv, modules.csv, activation.csv, layers.png and labels.png.

    Args:
        layers: from `modtf.measure_activations`.
        out: the folder; it is made where there is none.
        names: of labels and layers; labels that came as names have these.
        more: sections to stand before those of each layer.
        about: a sentence on what the file holds; by default the sizes of the layers.
        analysed: the results of analyses, one of which is quoted on the first screen.

    Returns:
        The path of the page, which needs no other file.

    Raises:
        ValueError: if there is no layer.
        OSError: if `out` cannot be written.

    Example:
        >>> write_routing_report(modtf.measure_activations(gates, labels), "report")  # doctest: +SKIP
        PosixPath('report/measures.html')
    """
    for name, values, kind in (("layers", layers, LayerMeasures), ("more", more, page.Section)):
        if not isinstance(values, Sequence) or not all(isinstance(one, kind) for one in values):
            raise ValueError(f"{name}={values!r} is not valid; expected a list of {kind.__name__}.")
    if not layers:
        raise ValueError("layers is empty; expected what modtf.measure_activations returns.")
    check_path("out", out)
    if not isinstance(names, Names | None):
        raise ValueError(f"names={names!r} is not valid; expected a modtf.routing.Names.")
    if not isinstance(analysed, Mapping | None):
        raise ValueError(f"analysed={analysed!r} is not valid; expected a dict of analyses by name.")
    names, out = tables.names_of(layers, names), Path(out)
    frames = {
        "measures.csv": pd.DataFrame([row for layer in layers for row in layer.to_rows()]),
        "modules.csv": tables.module_rows(layers, names),
        "activation.csv": tables.activation_rows(layers, names),
    }
    for file, frame in frames.items():
        if names.layers is not None:
            frame.insert(1, "layer_name", frame["layer"].map(names.layer))
        write_table(out / file, frame)
    sections = [_first_section(layers, names, about, dict(analysed or {}))]
    if layers[0].label_counts is not None:
        sections.append(page.Section("Layers", [LAYERS], content=[shown(draw_layers(layers, names), out)]))
    if layers[0].label_counts is not None and any(len(layer.labels) > 1 for layer in layers):
        sections += _label_sections(layers, names, out)
    sections += more
    folds = [_fold(layer, names) for layer in layers]
    shuffled = any(layer.views[-1].shuffled is not None for layer in layers)
    sections.append(page.Section("Each layer", [MATRICES, SHUFFLED][: 1 + shuffled], content=folds))
    sections.append(measures_section(activation_measures(GROUPS)))
    sections.append(glossary_section(WORDS))
    write_text(out / PAGE, page.render("modtf measure", sections))
    return out / PAGE


def _first_section(
    layers: Sequence[LayerMeasures], names: Names, about: str, analysed: dict[str, Analysed]
) -> page.Section:
    """Return the first section: the sizes of the data, what was found, and the warnings."""
    first = layers[0]
    sizes = sorted({layer.mass.use.size for layer in layers})
    modules = plural(sizes[0], "module") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} modules"
    labels = tables.all_labels(layers)
    size = f"{plural(len(layers), 'layer')}, {modules}, {plural(len(labels), 'label')}"
    if first.label_counts is not None:
        size += f", {plural(int(first.label_counts.sum()) + first.dropped, 'token')}"
    sentences = [about or f"{size}.", *findings(layers, names, analysed)]
    texts = [first.how] * bool(first.how)
    return page.Section("What was found", texts, tables.warning_lines(layers, names), findings=sentences)


def _label_sections(layers: Sequence[LayerMeasures], names: Names, out: Path) -> list[page.Section]:
    """Return the sections on labels: their figure and counts, and the most specialised modules.

    The figure needs two permutations, and the table of modules needs one.
    """
    counts = label_counts(layers, names)
    draws = max(len(layer.views[-1].largest_excess_by_chance) for layer in layers)
    if not draws:
        return [page.Section("Labels", [COUNTS], content=[counts])]
    figure = [shown(draw_labels(layers, names), out)] if draws > 1 else []
    special = page.Table(tables.special_modules(layers, names), "modules.csv")
    return [
        page.Section("Labels", [LABELS if figure else COUNTS], content=[*figure, counts]),
        page.Section("Most specialised modules", [BEYOND], content=[special]),
    ]


def shown(picture: Picture, out: Path, files: str = "measures.csv") -> page.Image:
    """Write a picture beside the page; return it as a part of the page."""
    png = png_of(picture)
    with atomic_path(out / f"{picture.name}.png") as temporary:
        temporary.write_bytes(png)
    return page.Image(picture, png, f"{picture.name}.png; {files}")


def _fold(layer: LayerMeasures, names: Names) -> page.Fold:
    """Return a line that shows a layer's matrices and measures when it is opened."""
    rows = shown_labels(layer)
    words = [short(names.label(number), number) for number in layer.labels[rows].tolist()]
    matrices = [page.Matrix(BY[view.by], pixels(view, rows), words) for view in layer.views]
    table = page.Table(tables.layer_table(layer), "measures.csv")
    return page.Fold(f"Layer {names.layer(layer.layer)}: {tables.in_brief(layer)}", [*matrices, table])


def draw_layers(layers: Sequence[LayerMeasures], names: Names) -> Picture:
    """Adjusted mutual information and load over layers, with the band of chance."""
    rows = [row for layer in layers for row in layer.to_rows() if row["measure"] == ADJUSTED]
    for layer in layers:
        for view in layer.views:
            use = view.use[view.use > 0]
            load = np.exp(-(use * np.log(use)).sum()) / view.use.size
            rows.append({"layer": layer.layer, "by": view.by, "measure": "load", "value": load})
    table = pd.DataFrame(rows)
    titles = "Adjusted mutual information (grey: chance)", "Load: effective number of modules / modules"
    numbers = [layer.layer for layer in layers]
    figure, both = over_layers(numbers, names, titles)
    places = np.arange(len(layers))
    for axes, measure in zip(both, (ADJUSTED, "load"), strict=True):
        for by, rest in table[table["measure"] == measure].groupby("by", sort=False):
            part = rest.set_index("layer").reindex(numbers)  # a layer with one label has no information
            axes.plot(places, part["value"], "o-", ms=3, color=COLOUR[by], label=BY[by])
            if measure == ADJUSTED:
                axes.fill_between(places, part["low"], part["high"], color=COLOUR[by], alpha=0.2, lw=0)
                band = part["chance_low"], part["chance_high"]
                axes.fill_between(places, *band, color=GREY, alpha=0.4, lw=0)
    both[1].set(ylim=(0, 1.02))
    both[1].legend(frameon=False, fontsize=8)
    note = "95% of permuted labels lie in the grey bands."
    return Picture("layers", "Layers", note, figure, table)


def pixels(view: View, rows: NDArray[np.intp]) -> str:
    """The matrix of a view, that of a shuffled labelling to its right, as a PNG in base64."""
    shown = []
    largest = max(float(view.activation[rows].max()), 1e-9)
    for matrix in (view.activation, view.shuffled):
        if matrix is not None:
            top = np.where(matrix.max(axis=0) > 0, matrix.argmax(axis=0), len(matrix))
            modules = np.lexsort((-matrix.max(axis=0), top))
            levels = np.clip(matrix[np.ix_(rows, modules)] / largest, 0.0, 1.0) * 254
            shown += [levels.astype(np.uint8), np.full((len(rows), GAP), 255, np.uint8)]
    image = Image.fromarray(np.concatenate(shown[:-1], axis=1)).convert("P")
    colours = matplotlib.colormaps[HEAT](np.linspace(0, 1, 255))[:, :3]
    image.putpalette([*(colours * 255).astype(np.uint8).ravel().tolist(), 255, 255, 255])
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()
