"""Writes the page, its pictures (curves over layers, labels over layers, a pixel a cell) and its tables."""

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from modtf.base.checks import check_path
from modtf.base.files import atomic_path, write_table, write_text
from modtf.metrics import GROUPS, activation_measures
from modtf.metrics.distributions import entropy
from modtf.pages import page
from modtf.pages.pictures import HEAT, Picture, png_of, start_at_zero
from modtf.pages.text import plural
from modtf.routing.analyses import Analysed
from modtf.routing.analyses.sentences import corrected_limit
from modtf.routing.drawing import draw_line, over_layers
from modtf.routing.measuring import Estimate, LayerMeasures, View
from modtf.routing.names import Names
from modtf.routing.report import tables
from modtf.routing.report.findings import findings
from modtf.routing.report.tables import ADJUSTED, BY

PAGE = "measures.html"
RANKED = "Layers by hard assignment, the one with the most information about labels first."
UNEVEN = "Layers by hard assignment, the one with the most uneven load first."
LAYERS = (
    "Left: the information that the experts of each layer carry about labels; above the grey band it is more "
    "than chance. Right: how evenly experts are used."
)
BEYOND = (
    "For each label, the experts in which it has the largest share, by hard assignment. An expert is listed "
    "if it has enough tokens and its excess over permuted labels, in standard deviations, is larger than the "
    "largest excess of any expert of any layer in 95% of permutations."
)
LABELS = "How much information the chosen expert carries about each label, in each layer; and label counts."
COUNTS = "How many tokens each label has."
MATRICES = (
    "Open a layer to see its activation matrices, p(expert | label). Rows are labels. Columns are experts, "
    "ordered by their most frequent label. Darker is more; white is nothing."
)
SHUFFLED = (
    "The left matrix has the labels as they are; the right one has shuffled labels: its diagonal comes from "
    "the order alone."
)
WORDS = {
    "gate mass": "Counts a token for every expert, weighted by the probability that the router gives it.",
    "hard assignment": "Counts a token for the experts that it is sent to.",
    "chance": "The value for experts that carry no information about labels, from permuted labels. Square "
    "brackets behind a value hold its confidence interval.",
    "adjusted mutual information": "Information that experts carry about labels beyond chance, as a share of "
    "the most they could carry: 0 is none, 1 is all.",
    "load": "The share of tokens that an expert answers. The figure shows the effective number of experts "
    "divided by the number of experts: 1 is even.",
}
GAP, BETWEEN = 4, (153, 153, 153)  # columns between two matrices, and their grey
RANKED_MOST = 10  # layers in the first table; the files have all
COLOUR = {"mass": "#0072B2", "hard": "#D55E00"}
MOST_LABELS = 64  # that a matrix has room for
LETTERS = 24  # of a label's name


def write_routing_report(
    layers: Sequence[LayerMeasures],
    out: str | Path,
    names: Names | None = None,
    more: Sequence[page.Section] = (),
    about: str = "",
    analysed: Mapping[str, Analysed] | None = None,
    source: str = "",
) -> Path:
    """Writes measures.html, measures.csv, experts.csv, activation.csv, layers.png and labels.png.

    Args:
        layers: from `modtf.measure_activations`.
        out: the folder; it is made where there is none.
        names: of labels and layers; labels that came as names have these.
        more: sections to stand before those of each layer.
        about: a sentence on what the file holds; by default the sizes of the layers.
        analysed: the results of analyses, one of which is quoted on the first screen.
        source: the name of the file or model, for the title.

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
        "experts.csv": tables.expert_rows(layers, names),
        "activation.csv": tables.activation_rows(layers, names),
    }
    for file, frame in frames.items():
        if names.layers is not None:
            frame.insert(1, "layer_name", frame["layer"].map(names.layer_name))
        write_table(out / file, frame)
    sections = [_first_section(layers, names, dict(analysed or {}), out)]
    sections.append(_data_section(layers, names, about))
    if layers[0].label_counts is not None and any(len(layer.labels) > 1 for layer in layers):
        sections += _label_sections(layers, names, out)
    sections += more
    folds = [_fold(layer, names) for layer in layers]
    shuffled = any(layer.views[-1].shuffled is not None for layer in layers)
    sections.append(page.Section("Each layer", [MATRICES, SHUFFLED][: 1 + shuffled], content=folds))
    sections.append(page.measures_section(activation_measures(GROUPS), tables.in_experts))
    sections.append(page.glossary_section(WORDS))
    write_text(out / PAGE, page.render(f"modtf measure{': ' * bool(source)}{source}", sections))
    return out / PAGE


def _first_section(
    layers: Sequence[LayerMeasures], names: Names, analysed: dict[str, Analysed], out: Path
) -> page.Section:
    """Return the first section: the verdict, the ranked layers, and the figure of all layers."""
    has_labels = any(ADJUSTED in layer.views[-1].values for layer in layers)
    ranked = page.Table(tables.ranked_layers(layers, names), "measures.csv", RANKED_MOST)
    content: list[object] = [page.Text(RANKED if has_labels else UNEVEN, small=True), ranked]
    if layers[0].label_counts is not None:
        content += [page.Text(LAYERS, small=True), shown(draw_layers(layers, names), out)]
    return page.Section("What was found", content=content, findings=findings(layers, names, analysed))


def _data_section(layers: Sequence[LayerMeasures], names: Names, about: str) -> page.Section:
    """Return the section on the data: their sizes, how they were measured, and the warnings."""
    first = layers[0]
    sizes = sorted({layer.mass.use.size for layer in layers})
    experts = plural(sizes[0], "expert") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} experts"
    labels = tables.all_labels(layers)
    size = f"{plural(len(layers), 'layer')}, {experts}, {plural(len(labels), 'label')}"
    if first.label_counts is not None:
        size += f", {plural(int(first.label_counts.sum()) + first.dropped, 'token')}"
    texts = [about or f"{size}.", *[first.how] * bool(first.how)]
    return page.Section("Data and warnings", texts, tables.warning_lines(layers, names))


def _label_sections(layers: Sequence[LayerMeasures], names: Names, out: Path) -> list[page.Section]:
    """Return the sections on labels: their figure and counts, and the most specialised experts.

    The figure needs two permutations, and the table of experts needs one.
    """
    counts = label_counts(layers, names)
    draws = max(len(layer.views[-1].largest_excess_by_chance) for layer in layers)
    if not draws:
        return [page.Section("Labels", [COUNTS], content=[counts])]
    figure = [shown(draw_labels(layers, names), out)] if draws > 1 else []
    special = page.Table(tables.special_experts(layers, names), "experts.csv")
    return [
        page.Section("Labels", [LABELS if figure else COUNTS], content=[*figure, counts]),
        page.Section("Most specialised experts", [BEYOND], content=[special]),
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
    where = f"layer {names.layer(layer.layer)}"
    note = f"Activation matrix of {where}: a row for each label, a column for each expert."
    matrices = [page.Matrix(BY[view.by], pixels(view, rows), words, note) for view in layer.views]
    table = page.Table(tables.layer_table(layer), "measures.csv")
    return page.Fold(f"Layer {names.layer(layer.layer)}: {tables.in_brief(layer)}", [*matrices, table])


def draw_layers(layers: Sequence[LayerMeasures], names: Names) -> Picture:
    """Adjusted mutual information and load over layers, with the band of chance."""
    rows = [row for layer in layers for row in layer.to_rows() if row["measure"] == ADJUSTED]
    for layer in layers:
        for view in layer.views:
            load = float(np.exp(entropy(view.use))) / view.use.size
            rows.append({"layer": layer.layer, "by": view.by, "measure": "load"} | vars(Estimate(load)))
    table = pd.DataFrame(rows)
    titles = "Adjusted mutual information (grey: chance)", "Load: effective number of experts / experts"
    numbers = [layer.layer for layer in layers]
    figure, both = over_layers(numbers, names, titles)
    for axes, measure in zip(both, (ADJUSTED, "load"), strict=True):
        for by, rest in table[table["measure"] == measure].groupby("by", sort=False):
            draw_line(axes, numbers, rest, COLOUR[str(by)], BY[str(by)])
    start_at_zero(both[0])
    both[1].set(ylim=(0, 1.02))
    both[1].legend(frameon=False, fontsize=8)
    note = "95% of permuted labels lie in the grey bands."
    return Picture("layers", "Layers", note, figure, table)


def pixels(view: View, rows: NDArray[np.intp]) -> str:
    """Return the matrix of a view, that of a shuffled labelling to its right, as a PNG in base64."""
    shown = []
    matrices = [matrix[rows] for matrix in (view.activation, view.shuffled) if matrix is not None]
    largest = max(float(matrices[0].max()), 1e-9)
    for matrix in matrices:
        top = np.where(matrix.max(axis=0) > 0, matrix.argmax(axis=0), len(matrix))
        experts = np.lexsort((-matrix.max(axis=0), top))
        levels = np.clip(matrix[:, experts] / largest, 0.0, 1.0) * 254
        shown += [levels.astype(np.uint8), np.full((len(rows), GAP), 255, np.uint8)]
    image = Image.fromarray(np.concatenate(shown[:-1], axis=1)).convert("P")
    colours = HEAT(np.linspace(0, 1, 255))[:, :3]
    image.putpalette([*(colours * 255).astype(np.uint8).ravel().tolist(), *BETWEEN])
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def label_counts(layers: Sequence[LayerMeasures], names: Names) -> page.Table:
    """Return the tokens of each label, in the layer that routes most of them."""
    of_layers = [pd.Series(layer.label_counts, layer.labels) for layer in layers]
    most = pd.concat(of_layers, axis=1).max(axis=1).astype(int)
    counts = pd.DataFrame({"label": list(map(names.label, most.index.tolist())), "tokens": most.to_numpy()})
    return page.Table(counts.sort_values("tokens", ascending=False, kind="stable"))


def draw_labels(layers: Sequence[LayerMeasures], names: Names) -> Picture:
    """Draw the bits beyond chance that experts carry about each label, by layer; blank at chance level.

    The limit is corrected for all labels and layers (Bonferroni)."""
    labels = np.unique(np.concatenate([layer.labels[shown_labels(layer)] for layer in layers]))
    bits = np.full((len(labels), len(layers)), np.nan)
    for column, layer in enumerate(layers):
        view, rows = layer.views[-1], shown_labels(layer)
        mean, low, high = view.bits_by_chance
        limit = corrected_limit(low, mean, high, bits.size, len(view.largest_excess_by_chance))
        beyond = np.where(view.bits > limit, view.bits - mean, np.nan)
        bits[labels.searchsorted(layer.labels[rows]), column] = beyond[rows]
    words = [short(names.label(number), number) for number in labels.tolist()]
    title = (
        "Information of the chosen expert about a label, in bits beyond chance (darker: more, white: none)"
    )
    height = float(np.clip(0.16 * len(labels) + 1.0, 2.0, 10.0))
    figure, (axes,) = over_layers([layer.layer for layer in layers], names, [title], 90, height=height)
    most = 1.0 if np.isnan(bits).all() else None
    image = axes.imshow(bits, HEAT, aspect="auto", interpolation="nearest", vmin=0, vmax=most)
    axes.set_yticks(range(len(labels)), words)
    axes.grid(False)
    axes.tick_params(labelsize=7)
    figure.colorbar(image, ax=axes, fraction=0.03)
    table = pd.DataFrame(bits, words, [names.layer(layer.layer) for layer in layers])
    note = "Bits beyond chance, corrected for all labels and layers, by hard assignment."
    return Picture("labels", "Labels", note, figure, table)


def shown_labels(layer: LayerMeasures) -> NDArray[np.intp]:
    """The rows of the most frequent labels, in their order."""
    counts = np.zeros(len(layer.labels)) if layer.label_counts is None else layer.label_counts
    return np.sort(np.argsort(-counts, kind="stable")[:MOST_LABELS])


def short(name: str, number: int) -> str:
    """A name that fits beside a matrix and stays different from others."""
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 6]}... ({number})"
