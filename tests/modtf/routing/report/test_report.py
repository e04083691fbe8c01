"""The page on any mixture of experts, its tables and heat maps; the command is in tests/launch."""

import base64
import io
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image

import modtf
from modtf.routing import Names, report_text, write_routing_report
from modtf.routing.drawing import label_layers
from modtf.routing.report.tables import (
    layer_table,
    special_experts,
    summary_notes,
    summary_table,
    warning_lines,
)
from modtf.routing.report.write import draw_labels, draw_layers, pixels, short, shown_labels

LABELS, LAYERS = ("letter", "<b>digit</b>", "space"), ("below", "above")
FILES = {"measures.html", "measures.csv", "experts.csv", "activation.csv", "layers.png", "labels.png"}


def measured(num_layers=2, **options):
    """Layers whose first module is never chosen; label r has module r + 1 to itself, but for noise."""
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=600)
    gates = 0.1 + 0.5 * np.eye(5)[labels + 1] + generator.random((num_layers, 600, 5)) / 10
    gates[..., 0] = 0.0
    gates /= gates.sum(axis=-1, keepdims=True)
    documents = np.arange(600)
    return modtf.measure_activations(gates, labels, documents=documents, permutations=10, **options)


@pytest.fixture(scope="module")
def layers():
    return measured()


@pytest.fixture(scope="module")
def atlas(layers, tmp_path_factory):
    out = tmp_path_factory.mktemp("atlas") / "made" / "here"
    assert write_routing_report(layers, out, Names(LABELS, LAYERS)) == out / "measures.html"
    return out


def test_the_page_and_its_files(atlas, layers):
    assert {path.name for path in atlas.iterdir()} == FILES
    text = (atlas / "measures.html").read_text()
    fetched = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert sum(link.startswith("data:image/png;base64,") for link in fetched) == 2 + 2 * 2
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in fetched)
    local = [link[1:] for link in fetched if link.startswith("#")]
    assert set(local) <= set(re.findall(r' id="([^"]+)"', text))
    sections = "what-was-found data-and-warnings labels most-specialised-experts each-layer measures glossary"
    assert re.findall(r'<section id="([^"]+)"', text) == sections.split()
    assert [name for name in local if name in sections.split()] == sections.split()
    assert "#contents" in fetched
    for words in (
        "2 layers, 5 experts, 3 labels, 600 tokens.",
        "Gates; one expert per token is assumed, because top_k is not given. Labels as "
        "frequent as observed. Intervals: 95%.",
        "adjusted mutual information",
    ):
        assert words in text
    assert "Test loss" not in text, "there is no performance here"
    assert "<b>digit" not in text
    assert "&lt;b&gt;digit" in text
    assert text.count("Experts 0 and 4 received fewer than 15 tokens, 5 for each of 3 labels: too few") == 1
    found = layers[1].mass.values["alignment"]
    assert f"<td>{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]</td>" in text
    assert f"<td>{found.chance:.3f}</td>" in text


def test_special_experts_are_those_beyond_chance(layers):
    table = special_experts(layers, Names(LABELS, LAYERS))
    assert list(table["label"]) == [name for name in LABELS for _ in LAYERS]
    assert list(table["expert"]) == ["1", "1", "2", "2", "3", "3"]
    assert set(table["layer"]) == set(LAYERS)
    nothing = modtf.measure_activations(np.eye(3)[np.arange(300) // 3 % 3], np.arange(300) % 3)
    [row] = special_experts(nothing, Names()).itertuples()
    assert (row.label, row.layer) == ("all 3", "none is beyond chance")


def test_labels_of_a_router_without_information_are_blank():
    """Each label of each layer is above its own limit in one case of 40."""
    generator = np.random.default_rng(0)
    experts, labels = generator.integers(8, size=(20, 3000, 1)), np.arange(3000) // 10 % 20
    found = modtf.measure_activations(
        experts=experts, num_experts=8, labels=labels, documents=np.arange(3000) // 10, permutations=39
    )
    assert sum((one.hard.bits > one.hard.bits_by_chance[2]).sum() for one in found) > 4
    assert draw_labels(found, Names()).table.isna().all(axis=None)


def test_pictures_show_the_band_of_chance_and_a_shuffled_labelling(layers):
    names = Names(LABELS, LAYERS)
    table = draw_layers(layers, names).table
    told = table[table["measure"] == "adjusted_mutual_information"]
    assert (told["value"] > told["chance_high"]).all()
    assert table[table["measure"] == "load"]["value"].between(0, 1).all()
    bits = draw_labels(layers, names).table
    assert (bits > 0).all(axis=None)
    assert list(bits.columns) == list(LAYERS)
    image = Image.open(io.BytesIO(base64.b64decode(pixels(layers[0].hard, np.arange(3)))))
    assert image.size == (5 + 4 + 5, 3)
    shown = 255 - np.asarray(image.convert("L"), int)  # darkness: more is darker, and nothing is white
    assert shown[:, :3].argmax(axis=1).tolist() == [0, 1, 2], "experts in the order of their labels"
    assert (shown[:, 5:9] == 255 - 153).all()
    assert shown[:, :5].max() > 1.5 * shown[:, 9:].max()
    assert not shown[:, :5].min()


def test_the_page_at_the_size_of_a_large_model(tmp_path):
    """A page of 61 layers x 256 experts x 20 labels takes less than 2 MB."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(20), 40)
    logits = generator.normal(size=(2, 800, 256)).astype(np.float32)
    options: Any = {"from_logits": True, "top_k": 8, "permutations": 4, "num_groups": 2}
    options["groups"] = ["collapse"]
    layers = modtf.measure_activations(logits, labels, documents=np.arange(800) // 10, **options)
    one, two = (write_routing_report(layers[:n], tmp_path).stat().st_size for n in (1, 2))
    assert one + 60 * (two - one) < 2_000_000


def test_the_tables(atlas, layers):
    names = ("measures", "experts", "activation")
    measures, experts, activation = (pd.read_csv(atlas / f"{name}.csv") for name in names)
    expected = pd.DataFrame([row for layer in layers for row in layer.to_rows()])
    assert list(measures["layer_name"].drop_duplicates()) == list(LAYERS)
    pd.testing.assert_frame_equal(measures.drop(columns="layer_name"), expected)
    assert len(experts) == 2 * 2 * 5
    hard = experts[(experts["by"] == "hard") & (experts["layer"] == 1)].set_index("expert")
    assert hard.loc[1:3, "top_label_name"].tolist() == list(LABELS)
    assert hard.loc[[0], ["top_label", "top_label_name"]].isna().all(axis=None), "never used"
    assert hard["too_few"].tolist() == [True, False, False, False, True]
    one = activation[(activation["by"] == "mass") & (activation["layer_name"] == "above")]
    matrix = one.pivot(index="label", columns="expert", values="probability").to_numpy()
    np.testing.assert_allclose(matrix, layers[1].mass.activation)
    assert one["label_name"].iloc[5] == LABELS[1]


def test_the_page_is_the_last_to_be_written(layers, tmp_path, monkeypatch):
    def fails(layer, names):
        raise KeyboardInterrupt

    monkeypatch.setattr("modtf.routing.report.write._fold", fails)
    with pytest.raises(KeyboardInterrupt):
        write_routing_report(layers, tmp_path)
    assert "measures.html" not in {path.name for path in tmp_path.iterdir()}
    assert not list(tmp_path.glob(".writing*"))


def test_without_names_there_are_no_columns_of_them(layers, tmp_path):
    write_routing_report(layers[:1], tmp_path)
    for file in ("measures.csv", "experts.csv", "activation.csv"):
        assert not [name for name in pd.read_csv(tmp_path / file) if name.endswith("_name")]


def test_a_bare_matrix(tmp_path):
    """No tokens: neither counts nor intervals, and a page all the same."""
    layers = modtf.measure_activations(activation_matrix=np.eye(3))
    text = write_routing_report(layers, tmp_path).read_text()
    assert "1 layer, 3 experts, 3 labels." in text
    assert "nan" not in text
    assert "alignment" in report_text(layers)
    assert "[" not in report_text(layers)
    with pytest.raises(
        ValueError, match=r"layers is empty; expected what modtf\.measure_activations returns"
    ):
        write_routing_report([], tmp_path)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ("model.layers.{}.mlp", "0 4 8 12 16 20 24 28 32 36 40 44 48 52 56 60"),
        ("a layer called {}", "0 25 50"),
    ],
)
def test_names_of_many_layers_do_not_overlap(layer, expected):
    axes = Figure().subplots()
    names = Names(None, [layer.format(number) for number in range(61)])
    label_layers(axes, range(61), names)
    words = [text.get_text().rpartition(" ")[2] for text in axes.get_xticklabels()]
    assert words == expected.split()


def test_many_labels_are_cut_to_the_most_frequent():
    labels = np.repeat(np.arange(70), np.arange(70) + 1)
    (layer,) = modtf.measure_activations(np.eye(2)[labels % 2], labels, permutations=0)
    assert layer.labels[shown_labels(layer)].tolist() == list(range(6, 70))
    assert short("a name that is too long to stand beside it", 2) == "a name that is too... (2)"


def test_the_terminal_shows_a_line_a_layer(layers):
    """So that 61 layers fit a screen; below them the directions, and what is within chance."""
    lines = report_text(layers, Names(None, LAYERS)).splitlines()
    assert [line.split()[0] for line in lines[3:5]] == list(LAYERS)
    found = layers[0].hard.values["adjusted_mutual_information"]
    assert f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]" in lines[3]
    assert f"{layers[0].hard.values['effective_experts'].value:.1f} of 5" in lines[3]
    assert len(lines) == 5 + 1 + 3 + 2
    assert max(map(len, lines[:-2])) <= 110
    assert "higher:" in lines[6]
    assert "lower is better" in lines[8]
    generator = np.random.default_rng(0)
    nothing = modtf.measure_activations(np.eye(3)[generator.integers(3, size=900)], np.arange(900) % 3)
    assert "(within chance)" in report_text(nothing).splitlines()[3]
    gates, document = generator.dirichlet(np.ones(8), 1000), np.repeat([0, 1], 500)
    gates[:500] = 0.5 * gates[:500] + 0.5 * generator.dirichlet(np.ones(8))  # as in every permutation
    whole = modtf.measure_activations(gates, document, documents=document)
    assert whole[0].views[-1].values["adjusted_mutual_information"].chance_high < 1e-9
    assert "(within chance)" in report_text(whole).splitlines()[3]
    alone = modtf.measure_activations(np.ones([9, 1]), np.arange(9) % 3)
    assert "- of 1" in report_text(alone)
    table = layer_table(layers[0]).set_index("measure")
    assert table.loc["load variation", "chance, hard assignment"] == "", "no labels, no chance"
    assert table.loc["alignment", "chance, hard assignment"] != ""
    assert table.loc[["alignment", "adjusted mutual information"], "better"].tolist() == ["lower", "higher"]


def test_without_labels_the_page_and_the_text_show_the_load(tmp_path):
    generator = np.random.default_rng(0)
    experts = generator.permuted(np.tile(np.arange(4), (300, 1)), axis=1)[:, :2]
    layers = modtf.measure_activations(experts=experts, num_experts=4)
    text = report_text(layers)
    assert "4.0 of 4" in text
    assert "There are no labels. Give labels=..." in text
    page = write_routing_report(layers, tmp_path).read_text()
    assert "all tokens" in page
    assert "Most specialised" not in page
    assert "nan" not in page
    measures = pd.read_csv(tmp_path / "measures.csv")
    assert measures["chance"].isna().all()


def test_warnings_that_differ_in_numbers_alone_are_one_line(layers):
    layers = [replace(layer, warnings=layer.warnings[1:]) for layer in layers]  # the first is on top_k
    (line,) = warning_lines(layers, Names())
    assert line.startswith("Experts 0 and 4 received fewer than 15 tokens, 5 for each of 3 labels: too few")
    assert summary_table(layers, Names())["too few\ntokens"].tolist() == ["2", "2"]
    other = replace(layers[1], warnings=(line.replace("Experts 0 and 4", "3 of 5 experts"),), dropped=7)
    assert warning_lines([layers[0], other], Names()) == [
        f"Layer 0: {line} The same holds for others in layer 1.",
        "7 tokens of layer 1 went to no expert. Such tokens are left out.",
    ]
    assert warning_lines([layers[0], replace(layers[1], warnings=())], Names(None, LAYERS)) == [
        f"Layer below: {line}"
    ]


@pytest.mark.parametrize(("number", "words"), [
    (38, "97.5% lie lower, if normal, by mean and spread of 38 permutations."),
    (39, "97.5% of permutations give a lower value."),
])  # fmt: skip
def test_the_limit_is_what_the_note_says(number, words):
    """With fewer than 39 permutations no order statistic is the limit."""
    layers = modtf.measure_activations(
        np.eye(4)[np.arange(400) % 4], np.arange(400) // 20 % 4, permutations=number
    )
    assert summary_notes(layers)[1].endswith(words)
