"""Layers that route tokens of some labels only, as those of separate experts for text and for images."""

import numpy as np
import pytest

import modtf
from modtf.routing import write_routing_report
from modtf.routing.measuring import Experts, compare_activations
from modtf.routing.measuring.compare import Run
from modtf.routing.report.compared import draw_comparison
from modtf.routing.report.findings import comparison_findings
from modtf.routing.report.write import draw_layers, label_counts

TOKENS = 600
DOCUMENTS = np.arange(TOKENS) // 10
LABELS = DOCUMENTS % 3


def chosen(seed):
    """Return experts of three layers; the first routes label 0, the second labels 1 and 2, the third all."""
    experts = np.argsort(np.random.default_rng(seed).random((3, TOKENS, 6)), axis=-1)[..., :2]
    experts[0, LABELS != 0] = experts[1, LABELS == 0] = -1
    return Experts(experts, 6)


@pytest.fixture(scope="module")
def layers():
    return modtf.measure_activations(chosen(0), LABELS, documents=DOCUMENTS, permutations=5)


def test_a_layer_of_one_label_has_a_gap_in_the_figure(layers, tmp_path):
    assert [layer.labels.tolist() for layer in layers] == [[0], [1, 2], [0, 1, 2]]
    information, load = draw_layers(layers, modtf.routing.Names()).figure.axes
    expected = [layer.hard.values["adjusted_mutual_information"].value for layer in layers[1:]]
    np.testing.assert_allclose(np.array(information.lines[1].get_ydata(), float), [np.nan, *expected])
    assert np.isfinite(np.array(load.lines[1].get_ydata(), float)).all()
    page = write_routing_report(layers, tmp_path).read_text()
    assert "3 layers, 6 experts, 3 labels, 600 tokens." in page


def test_labels_are_counted_in_the_layer_that_routes_them(layers):
    counts = label_counts(layers, modtf.routing.Names()).frame
    assert counts["label"].tolist() == ["0", "1", "2"]
    assert counts["tokens"].tolist() == [200, 200, 200]


def test_two_models_are_compared_in_all_layers():
    runs = {"a": chosen(0), "b": chosen(1)}
    found = compare_activations(runs, LABELS, documents=DOCUMENTS, permutations=5)
    first, _ = comparison_findings(found, modtf.routing.Names())
    assert first.startswith("b compared with a: adjusted mutual information")
    measured = [
        Run(name, (), modtf.measure_activations(one, LABELS, documents=DOCUMENTS, permutations=5))
        for name, one in runs.items()
    ]
    difference = draw_comparison(measured, found, modtf.routing.Names()).figure.axes[1]
    assert np.isnan(np.array(difference.lines[1].get_ydata(), float)).tolist() == [True, False, False]
