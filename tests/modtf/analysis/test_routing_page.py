"""The page on any mixture of experts, its tables and heat maps; the command is in tests/launch."""

import re

import numpy as np
import pandas as pd
import pytest

import modtf
from modtf.analysis.routing_page import Names, print_atlas, write_atlas
from modtf.analysis.routing_page.tables import glance_table, warning_lines
from modtf.analysis.routing_page.write import draw_layer

LABELS, LAYERS = ("letter", "<b>digit</b>", "space"), ("below", "above")
FILES = {"measures.html", "measures.csv", "modules.csv", "activation.csv"}


def measured(num_layers=2, **options):
    """Layers whose first module is never chosen; label r has module r + 1 to itself, but for noise."""
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=600)
    gates = 0.1 + 0.5 * np.eye(5)[labels + 1] + generator.random((num_layers, 600, 5)) / 10
    gates[..., 0] = 0.0
    gates /= gates.sum(axis=-1, keepdims=True)
    return modtf.measure_activations(gates, labels, permutations=10, **options)


@pytest.fixture(scope="module")
def layers():
    return measured()


@pytest.fixture(scope="module")
def atlas(layers, tmp_path_factory):
    out = tmp_path_factory.mktemp("atlas") / "made" / "here"
    assert write_atlas(layers, out, Names(LABELS, LAYERS), how=["From a test."]) == out / "measures.html"
    return out


def test_what_is_written(atlas):
    pictures = {f"activation_layer_{number}.png" for number in range(2)}
    assert {path.name for path in atlas.iterdir()} == FILES | pictures
    for name in pictures:
        assert (atlas / name).read_bytes().startswith(b"\x89PNG")


def test_the_page_needs_nothing_else(atlas):
    text = (atlas / "measures.html").read_text()
    fetched = re.findall(r'(?:src|href)="([^"]+)"', text)
    local = [link[1:] for link in fetched if link.startswith("#")]
    assert sum(link.startswith("data:image/png;base64,") for link in fetched) == 2
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in fetched)
    assert local == re.findall(r' id="([^"]+)"', text)
    assert local == ["what-was-measured", "layer-below", "layer-above", "measures"]


def test_the_page_says_it_all(atlas, layers):
    text = (atlas / "measures.html").read_text()
    for words in (
        "2 layers, 5 modules, 3 labels, 600 tokens.",
        "From a test.",
        "adjusted mutual information",
    ):
        assert words in text
    assert "Test loss" not in text, "there is no performance here"
    assert "2 of 5 modules have fewer than 15 tokens" in text
    found = layers[1].mass.values["alignment"]
    assert f"<td>{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]</td>" in text
    assert f"<td>{found.chance:.3f}</td>" in text


def test_names_are_text(atlas):
    text = (atlas / "measures.html").read_text()
    assert "<b>digit" not in text
    assert "&lt;b&gt;digit" in text


def test_the_measures(atlas, layers):
    frame = pd.read_csv(atlas / "measures.csv")
    expected = pd.DataFrame([row for layer in layers for row in layer.to_rows()])
    assert list(frame["layer_name"].drop_duplicates()) == list(LAYERS)
    pd.testing.assert_frame_equal(frame.drop(columns="layer_name"), expected)


def test_the_modules(atlas):
    frame = pd.read_csv(atlas / "modules.csv")
    assert len(frame) == 2 * 2 * 5
    hard = frame[(frame["by"] == "hard") & (frame["layer"] == 1)].set_index("module")
    assert hard.loc[1:3, "top_label_name"].tolist() == list(LABELS)
    assert hard["too_few"].tolist() == [True, False, False, False, True]


def test_the_activation(atlas, layers):
    frame = pd.read_csv(atlas / "activation.csv")
    one = frame[(frame["by"] == "mass") & (frame["layer_name"] == "above")]
    matrix = one.pivot(index="label", columns="module", values="probability").to_numpy()
    np.testing.assert_allclose(matrix, layers[1].mass.activation)
    assert one["label_name"].iloc[5] == LABELS[1]


def test_the_page_is_the_last_to_be_written(layers, tmp_path):
    def fails(items):
        yield items[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atlas(layers, tmp_path, progress=fails)
    assert "measures.html" not in {path.name for path in tmp_path.iterdir()}
    assert not list(tmp_path.glob(".writing*"))


def test_without_names_there_are_no_columns_of_them(layers, tmp_path):
    write_atlas(layers[:1], tmp_path)
    for file in ("measures.csv", "modules.csv", "activation.csv"):
        assert not [name for name in pd.read_csv(tmp_path / file) if name.endswith("_name")]


def test_no_layer_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no layer; expected what modtf\.measure_activations returns"):
        write_atlas([], tmp_path)


def test_a_bare_matrix(tmp_path):
    """No tokens: neither counts nor intervals, and a page all the same."""
    layers = modtf.measure_activations(np.eye(3))
    text = write_atlas(layers, tmp_path).read_text()
    assert "1 layer, 3 modules, 3 labels." in text
    assert "nan" not in text
    assert "alignment" in print_atlas(layers)
    assert "[" not in print_atlas(layers)


def test_a_heat_map_names_labels_and_modules(layers):
    picture = draw_layer(layers[0], Names(("letter", "digit", "a name that is too long to stand beside it")))
    first = next(axes for axes in picture.figure.axes if axes.get_title() == "gate mass")
    assert [tick.get_text() for tick in first.get_yticklabels()] == [
        "letter",
        "digit",
        "a name that is too... (2)",
    ]
    order = [int(tick.get_text()) for tick in first.get_xticklabels()]
    assert [number for number in order if number in (1, 2, 3)] == [1, 2, 3]
    shown = picture.table[picture.table["variant"] == "gate mass"]
    values = shown.set_index(["rule", "module"])["probability"]
    assert values["digit", "2"] == layers[0].mass.activation[1, 2]


def test_many_labels_are_cut_to_the_most_frequent():
    labels = np.repeat(np.arange(70), np.arange(70) + 1)
    (layer,) = modtf.measure_activations(np.eye(2)[labels % 2], labels, permutations=0)
    picture = draw_layer(layer, Names())
    assert "The 64 most frequent of 70 labels are shown." in picture.note
    assert list(picture.table["rule"].cat.categories) == [str(number) for number in range(6, 70)]


def test_the_terminal_shows_a_table_a_layer_or_a_row_a_layer(layers):
    text = print_atlas(layers, Names(None, LAYERS))
    assert text.count("alignment") == 2
    assert "Layer above:" in text
    many = print_atlas(measured(num_layers=5))
    assert many.count("alignment") == 1
    assert re.findall(r"^\d  ", many, re.MULTILINE) == [f"{number}  " for number in range(5)]


def test_a_warning_that_holds_for_all_layers_is_said_once(layers):
    (line,) = warning_lines(layers, Names())
    assert line.startswith("2 of 5 modules")
    glance = glance_table(layers, Names())
    assert glance["modules with too few tokens"].tolist() == [2, 2]
