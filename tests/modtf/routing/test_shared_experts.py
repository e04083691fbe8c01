"""Shared experts are left out, and the others keep their numbers in every table and sentence."""

from typing import Any

import numpy as np
import pytest

import modtf
from modtf.routing import Names
from modtf.routing.measuring import Experts, compare_activations
from modtf.routing.measuring.activations import ActivationAccumulator
from modtf.routing.measuring.compare import Run
from modtf.routing.report.compared import matched_experts
from modtf.routing.report.sections import top_tokens
from modtf.routing.report.tables import activation_rows, special_experts

TOKENS = 400
LABELS = np.arange(TOKENS) % 2  # label 0 goes to the experts 2 and 4, label 1 to 3 and 6
PAIRS = np.array([[2, 4], [3, 6]])[LABELS]
PAIRS[:4, 0] = 5  # four tokens are too few
SHARED = np.tile([0, 1], (TOKENS, 1))
ROUTED: dict[str, Any] = {
    "experts": np.hstack([SHARED[:, :1], PAIRS, SHARED[:, 1:]]),
    "num_experts": 7,
    "labels": LABELS,
    "documents": np.arange(TOKENS) // 2,
    "tokens": LABELS,
}
USED = np.bincount(PAIRS.ravel(), minlength=7)
NUMBERS = [2, 3, 4, 5, 6]


def test_experts_after_shared_ones_keep_their_numbers():
    routing = modtf.read_routing(ROUTED, shared=[0, 1])
    layers = routing.measure(permutations=20)
    (layer,) = layers
    np.testing.assert_array_equal(layer.module_numbers, NUMBERS)
    rows = {row["module"]: row["tokens"] for row in layer.module_rows()}
    assert rows == {number: USED[number] for number in NUMBERS}
    assert any(text.startswith("Expert 5 received fewer than") for text in layer.warnings)
    matrix = activation_rows(layers, Names()).query("by == 'hard' and label == 1").set_index("expert")
    assert matrix["probability"].nlargest(2).index.sort_values().tolist() == [3, 6]
    special = special_experts(layers, Names()).groupby("label")["expert"]
    assert special.agg(set).to_dict() == {"0": {"2", "4"}, "1": {"3", "6"}}
    analysed = modtf.analyse_routing(routing, ["load", "coactivation"], permutations=5).found
    load = analysed["load"].table.query("measure == 'load'").set_index("item")["value"]
    assert load.to_dict() == {number: USED[number] / USED.sum() for number in NUMBERS}
    pairs = analysed["coactivation"].table.query("measure == 'coactivation'")["item"]
    assert set(pairs) <= {"2+4", "3+6", "4+5", "5+6"}
    tokens = top_tokens(routing, 0).set_index("expert")["choices"]
    assert tokens.to_dict() == {number: USED[number] for number in NUMBERS}


def test_counts_keep_the_numbers_of_experts():
    documents = ROUTED["documents"]
    counts = np.array([np.bincount(PAIRS[documents == one].ravel(), minlength=7) for one in range(200)])
    counts[:, :2] = 2  # tokens of each document
    routing = modtf.read_routing({"counts": counts[:, np.newaxis]}, shared=[0, 1], top_k=2)
    (layer,) = routing.measure()
    assert {row["module"]: row["tokens"] for row in layer.module_rows()} == {n: USED[n] for n in NUMBERS}
    load = modtf.analyse_routing(routing, "load", permutations=2).found["load"].table
    assert load.query("measure == 'load'")["item"].tolist() == NUMBERS


def test_every_token_of_two_experts_of_which_one_is_named():
    """The warning that names a shared expert says its number, next to experts that are left out already."""
    (layer,) = modtf.measure_activations(experts=ROUTED["experts"], num_experts=7, shared=[0])
    assert any("Every token goes to expert 1 in all layers" in text for text in layer.warnings)


def test_other_shared_experts_are_other_experts():
    """Chunks are not added, and checkpoints not compared, expert by expert."""
    parts = [Experts(ROUTED["experts"], 7, shared=[shared]) for shared in (0, 1)]
    sums = ActivationAccumulator()
    sums.update(parts[0])
    with pytest.raises(
        ValueError, match=r"expected 1 layer.* 6 modules and the same shared experts, as in the"
    ):
        sums.update(parts[1])
    one, other = (modtf.read_routing(ROUTED, shared=[shared]) for shared in (0, 1))
    why = modtf.analyse_routing(one, ["saturation"], against=other).missing["saturation"]
    assert why.endswith("6 and 6 experts of different numbers")


def test_matched_experts_have_the_numbers_of_both_models():
    """The second model has the same routing, with experts 3 and 6 exchanged, and other shared experts."""
    other = np.array([1, 2, 6, 0, 4, 5, 3])[ROUTED["experts"]]  # [0, 1] -> [1, 2]; 2 -> 6, 3 -> 0, 6 -> 3
    runs, activations = [], {}
    for name, experts, shared in (("a", ROUTED["experts"], [0, 1]), ("b", other, [1, 2])):
        activations[name] = Experts(experts, 7, shared=shared)
        runs.append(Run(name, activations[name].layers, []))
    compared = compare_activations(activations, LABELS, documents=ROUTED["documents"], permutations=2)
    table = matched_experts(runs, compared, Names()).set_index("expert")
    assert table["matched"].to_dict() == {2: 6, 3: 0, 4: 4, 5: 5, 6: 3}
