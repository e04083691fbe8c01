"""Modules with too few tokens are named, with the values to expect by chance."""

from itertools import product

import numpy as np
import pytest
from activation_tokens import SPECIALISED, draw_tokens

from modtf.routing.measuring import measure_activations


@pytest.fixture(scope="module")
def layer():
    """Modules are independent of four labels; module 3 is hardly used, module 4 never."""
    generator = np.random.default_rng(0)
    labels = generator.integers(4, size=4000)
    modules = generator.choice(5, size=4000, p=[0.4, 0.4, 0.1985, 0.0015, 0])
    (found,) = measure_activations(np.eye(5)[modules], labels, documents=np.arange(4000))
    return found


def test_modules_with_too_few_tokens_are_named(layer):
    assert 0 < layer.module_tokens[3] < 20
    assert layer.too_few.tolist() == [False, False, False, True, True]
    assert len(layer.warnings) == 1
    assert layer.warnings[0] == (
        "Experts 3 and 4 received fewer than 20 tokens, 5 for each of 4 labels: too few to judge."
    )


def test_the_rule_is_five_tokens_for_each_label():
    for tokens, too_few in ((9, True), (10, False)):
        modules = np.repeat([0, 1], [200, tokens])
        (found,) = measure_activations(np.eye(2)[modules], np.arange(len(modules)) % 2, permutations=0)
        assert found.too_few.tolist() == [False, too_few]


def test_few_tokens_look_exclusive_and_chance_says_so(layer):
    rows = [row for row in layer.module_rows() if row["by"] == "hard"]
    assert rows[3]["top_label_share"] > rows[0]["top_label_share"] + 0.1
    assert rows[3]["top_label_chance"] > rows[0]["top_label_chance"] + 0.1
    assert rows[0]["top_label_chance"] == pytest.approx(rows[0]["top_label_share"], abs=0.03)
    assert rows[4]["tokens"] == 0
    assert rows[4]["top_label"] is None
    assert np.isnan(rows[4]["top_label_share"])
    assert np.isnan(rows[4]["top_label_chance"])


def test_module_rows(layer):
    rows = layer.module_rows()
    assert [(row["by"], row["module"]) for row in rows] == list(product(("mass", "hard"), range(5)))
    for row in rows:
        assert row["use"] == pytest.approx(row["tokens"] / 4000)
        assert row["too_few"] is bool(row["tokens"] < 20)
    columns = "layer by module use tokens too_few top_label top_label_share top_label_chance"
    assert list(rows[0]) == columns.split()


def test_top_labels():
    gates, labels = draw_tokens(SPECIALISED, 3000, seed=0)
    (found,) = measure_activations(gates, labels, documents=np.arange(3000), permutations=0)
    assert found.hard.top_label[:3].tolist() == [0, 1, 2]
    joint = np.array([[gates[labels == r, m].sum() for m in range(4)] for r in range(3)])
    np.testing.assert_allclose(found.hard.top_label_share, joint.max(axis=0) / joint.sum(axis=0))
    assert found.warnings == ()


def test_rare_labels_are_named():
    gates, labels = draw_tokens(SPECIALISED, 3000, seed=0)
    labels = np.append(labels, 9)
    gates = np.append(gates, gates[:1], axis=0)
    (found,) = measure_activations(gates, labels, documents=np.arange(3001), permutations=2)
    assert any("Label 9 had fewer than 20 tokens" in text for text in found.warnings)
    assert any("Label 9 occurred in only one group of tokens" in text for text in found.warnings)
    assert all(text.startswith("Label 9 ") for text in found.warnings)
    texts = np.array(["rare" if label == 9 else str(label) for label in labels])
    (named,) = measure_activations(gates, texts, documents=np.arange(3001), permutations=2)
    assert [text.replace("Label 'rare'", "Label 9") for text in named.warnings] == list(found.warnings)


def test_a_level_of_confidence_is_not_rounded():
    gates, labels = draw_tokens(SPECIALISED, 300, seed=0)
    for given in (labels, None):
        (found,) = measure_activations(gates, given, permutations=0, confidence=0.999)
        assert "Intervals: 99.9%." in found.how
