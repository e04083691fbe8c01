"""Sentences on the first screen of a report and of a comparison."""

import re

import numpy as np
import pandas as pd
import pytest
from flag_values import given
from scipy.special import stdtrit

import modtf
from modtf.launch import measure
from modtf.routing import Names
from modtf.routing.analyses.sentences import above_chance, beyond_chance, layers_text, number
from modtf.routing.measuring import Experts, compare_activations
from modtf.routing.measuring.estimates import mean_and_range
from modtf.routing.measuring.tokens import group_documents
from modtf.routing.report.findings import SCALE, comparison_findings, findings, held

NAMES = Names(None, ["below", "above"])


def arrays(strength):
    """Return top-1 routing of two layers. The second depends on the label; no layer uses expert 5."""
    generator = np.random.default_rng(0)
    labels, documents = np.arange(60) % 3, np.repeat(np.arange(60), 20)
    logits = generator.gumbel(size=(2, 1200, 6))
    logits[..., 5] = -9.0
    logits[1] += strength * np.eye(3, 6)[labels[documents]]
    names = np.array(["code", "law", "verse"])
    return {
        "experts": logits.argmax(axis=2)[..., np.newaxis], "num_experts": 6, "labels": labels[documents],
        "documents": documents, "label_names": names,
    }  # fmt: skip


def test_what_a_router_by_label_shows():
    routing = modtf.read_routing(arrays(2.0))
    text, load = findings(routing.measure(permutations=40), NAMES, {})
    assert re.fullmatch(
        rf"Only layer above carries information about labels: {SCALE} 0\.\d+ of 1, chance below .*", text
    )
    assert load.startswith("The load is most uneven in layer ")
    assert load.endswith("; 2 experts of layers below and above got none of these 1,200 tokens.")
    assert held(routing, "x.npz") == (
        "x.npz holds the routing of 2 layers, 6 experts per layer, 1,200 tokens, 60 documents, 3 labels "
        "(code, law, verse)."
    )
    counts = {"counts": np.array([[[3, 2, 1], [2, 2, 2]]])}  # of three tokens, if each makes two choices
    assert "2 layers, 3 experts per layer, 6 choices, 1 document" in held(modtf.read_routing(counts), "x.npz")
    assert ", 3 tokens, " in held(modtf.read_routing(counts | {"top_k": 2}), "x.npz")
    text, _ = findings(modtf.read_routing(arrays(0.0)).measure(permutations=40), NAMES, {})
    assert text.startswith(
        "No layer carries information about labels beyond chance, corrected for 2 layers: adj"
    )
    assert re.search(r" at most [\d.]+ of 1, in layer (above|below), chance below ", text)


def test_an_analysis_is_quoted():
    data = arrays(0.0) | {"tokens": np.arange(1200) % 30}
    found = modtf.analyse_routing(data, ["load", "vocabulary_specialisation"], permutations=5).found
    sentences = findings(modtf.read_routing(data).measure(permutations=5), NAMES, found)
    quoted = found["vocabulary_specialisation"].sentences[0]
    assert sentences[2] == f"Vocabulary specialisation: {quoted[0].lower()}{quoted[1:]}"


@pytest.mark.parametrize(("number", "dead"), [(256, 0), (180, 76)])
def test_experts_are_dead_if_a_balanced_router_would_use_them(number, dead):
    """A balanced router leaves 70 to 90 of 256 experts without any of 300 tokens."""
    experts = np.random.default_rng(0).integers(number, size=(6, 300, 1))
    routing = modtf.read_routing({"experts": experts, "num_experts": 256})
    layers = routing.measure(permutations=0)
    unused = [int((layer.hard.use == 0).sum()) for layer in layers]
    assert min(unused) >= dead + 30
    (quiet,) = findings(layers, Names(), {})
    assert quiet.endswith(f"; {sum(unused)} experts of layers 0 to 5 got none of these 300 tokens.")
    load = modtf.analyse_routing(routing, "load").found
    (text,), told = findings(layers, Names(), load), load["load"].sentences
    within = "No expert is busier than a balanced router's would be, corrected for 6 layers: the busiest, in "
    if not dead:
        assert text.startswith(within)
        assert text.endswith("; no layer has more dead experts than a balanced router would have.")
        assert told[0] == "No layer has more dead experts than a balanced router would have."
        return
    words = (
        rf"{sum(unused)} experts of layers 0 to 5 are dead \(never used; chance (\d+) to (\d+) per layer\)\."
    )
    found = re.fullmatch(rf"{within}.*; {words}", text)
    assert found
    assert 60 < int(found[1]) < int(found[2]) < 95
    assert re.fullmatch(
        rf"{max(unused)} experts of layer \d are dead: no token chose them, chance 6\d to \d\d\.", told[0]
    )
    assert told[3] == "3 more layers have dead experts."


def test_what_two_models_differ_in():
    runs = {
        name: modtf.read_routing(arrays(strength)).activations
        for name, strength in (("early", 0), ("late", 2))
    }
    data = arrays(0)
    compared = compare_activations(runs, data["labels"], documents=data["documents"])
    first, second = comparison_findings(compared, NAMES)
    assert first.startswith("late compared with early: adjusted mutual information is higher")
    assert "higher in layer above; the largest difference is +0." in first
    assert first.endswith("], in layer above.")
    assert second.startswith("late and early share ")
    assert "chance" in second


def test_the_largest_difference_of_many_layers_has_a_wider_interval():
    """One of 40 layers of two routers without information differs by more than its own 95% interval."""
    generator = np.random.default_rng(3)
    labels, documents = np.arange(1200) // 30 % 3, np.arange(1200) // 30
    runs = {name: Experts(generator.integers(4, size=(40, 1200, 1)), 4) for name in ("a", "b")}
    compared = compare_activations(runs, labels, documents=documents, permutations=39)
    assert [one.num_groups for one in compared] == [len(set(group_documents(np.arange(40), 32)))] * 40
    each = [one.differences["hard"]["adjusted_mutual_information"] for one in compared]
    largest = max(each, key=lambda one: abs(one.value))
    assert largest.low * largest.high > 0
    (first, _) = comparison_findings(compared, Names())
    assert "is not shown to differ in any layer; the largest difference is" in first
    low, high = map(float, first.rpartition("[")[2].partition("]")[0].split(","))
    assert low < 0 < high


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_the_correction_for_layers_has_the_confidence_of_the_intervals(confidence):
    runs = {name: np.eye(6)[arrays(strength)["experts"][..., 0]] for name, strength in (("a", 0), ("b", 2))}
    data = arrays(0)
    compared = compare_activations(
        runs, data["labels"], documents=data["documents"], permutations=9, confidence=confidence
    )
    largest = compared[1].differences["hard"]["adjusted_mutual_information"]
    (first, _) = comparison_findings(compared, NAMES)
    low, high = map(float, first.rpartition("[")[2].partition("]")[0].split(","))
    t = [stdtrit(compared[1].num_groups - 1, 1 - (1 - confidence) / tails) for tails in (4, 2)]
    assert high - low == pytest.approx((largest.high - largest.low) * t[0] / t[1], abs=0.002)


@pytest.mark.slow
def test_a_router_without_information_is_rarely_above_chance_in_any_of_many_layers():
    """Information has a skewed distribution: by normal tails one router in five would be above chance."""
    found = []
    for seed in range(40):
        generator = np.random.default_rng(seed)
        labels, experts = np.arange(400) % 2, generator.integers(4, size=(30, 400, 1))
        layers = modtf.measure_activations(
            labels=labels, experts=experts, num_experts=4, documents=np.arange(400), permutations=100
        )
        found.append(findings(layers, Names(), {})[0].startswith("No layer carries"))
    assert np.mean(found) > 0.9


def test_what_is_unknown_is_not_the_same():
    """Without permutations information is unknown, and with one document intervals are."""
    runs = {name: np.eye(6)[arrays(strength)["experts"][..., 0]] for name, strength in (("a", 0), ("b", 2))}
    labels = arrays(0)["labels"]
    (first, _) = comparison_findings(compare_activations(runs, labels, permutations=0), NAMES)
    assert first.startswith("b compared with a: effective experts is ")
    (first, _) = comparison_findings(
        compare_activations(runs, labels, documents=np.zeros(1200, int), permutations=39), NAMES
    )
    assert "is without intervals, which need two groups of documents; the largest difference" in first
    assert "nan" not in first
    table = pd.DataFrame({"layer": [0], "measure": "x", "item": "", "value": np.nan, "chance_high": np.nan})
    assert (
        beyond_chance(table, "x", "do", Names())
        == "The x of layers is unknown, because no tokens count for it."
    )


def test_one_layer_above_chance_among_many_is_no_finding():
    rows = {
        "layer": range(60),
        "measure": "load",
        "item": "",
        "chance": 0.0,
        "chance_low": -1.0,
        "chance_high": 1.0,
    }
    table = pd.DataFrame(rows | {"value": np.where(np.arange(60) == 7, 1.2, 0.0)})
    text = beyond_chance(table, "load", "specialise", Names())
    assert text.startswith(
        "No layer specialises beyond chance, corrected for 60 layers: load 0 to 1.20, chan"
    )
    table.loc[7, "value"] = 2.0
    assert beyond_chance(table, "load", "carry it", Names()).startswith("Layer 7 carries it: load up to 2.00")


@pytest.mark.slow
@pytest.mark.parametrize("draws", [9, 39, 100])
def test_routers_that_know_nothing_are_rarely_above_chance_in_any_of_many_layers(draws):
    generator, found = np.random.default_rng(0), []
    for _ in range(300):
        chance = mean_and_range(generator.normal(size=[draws, 60]))
        band = dict(zip(("chance", "chance_low", "chance_high"), chance, strict=True))
        columns = {"layer": range(60), "measure": "load", "item": "", "draws": draws, **band}
        table = pd.DataFrame({**columns, "value": generator.normal(size=60)})
        found.append(bool(above_chance(table, "load")))
    assert np.mean(found) < 0.05


def test_words():
    assert layers_text([3], Names()) == "layer 3"
    assert layers_text([3, 4, 5], Names()) == "layers 3 to 5"
    assert layers_text([1, 4], Names()) == "layers 1 and 4"
    assert layers_text([1, 4, 5, 7, 8, 9, 12], Names()) == "7 layers from 1 to 12"
    assert " ".join(map(number, (0.0, 0.037, 0.25, 12.34, 250.0, -0.5))) == "0 0.037 0.25 12.3 250 -0.50"


def test_spans_of_the_command_are_those_of_the_function(tmp_path):
    data = arrays(1.0)
    data["labels"] = np.arange(1200) // 10 % 3  # several labels in a document
    data["turns"] = np.arange(1200) // 5
    np.savez(tmp_path / "x.npz", **data)
    flags = f"--activations={tmp_path / 'x.npz'}", f"--out={tmp_path}", "--permutations=5", "--analyses=none"
    found = []
    for more in ("--spans=turns",), ():
        measure.main(given(measure, *flags, *more))
        found.append(pd.read_csv(tmp_path / "measures.csv"))
    experts = {name: data[name] for name in ("experts", "num_experts", "documents")}
    rows = modtf.measure_activations(labels=data["labels"], spans=data["turns"], permutations=5, **experts)
    expected = pd.DataFrame([row for layer in rows for row in layer.to_rows()])
    pd.testing.assert_frame_equal(found[0], expected)
    assert not found[0].equals(found[1])
    with pytest.raises(ValueError, match="lacks labels or documents"):
        modtf.read_routing(
            {"experts": data["experts"], "num_experts": 6, "turns": data["turns"]}, spans="turns"
        )


def test_one_label_says_that_nothing_can_be_measured():
    experts = np.argsort(np.random.default_rng(0).random((2, 300, 4)))[..., :2]
    for labels, expected in ((np.zeros(300, int), True), (None, False)):
        given = {"experts": experts, "num_experts": 4, "documents": np.arange(300)}
        routing = modtf.read_routing(given if labels is None else {**given, "labels": labels})
        found = findings(routing.measure(permutations=2), routing.names, {})
        assert found[0].startswith("All tokens have one label") == expected


@pytest.mark.parametrize("seed", [3, 5])
def test_a_layer_within_chance_is_not_named_for_its_larger_value(seed):
    """Layer 1 keeps 40 tokens, so by chance alone its value is larger than that of layer 0."""
    labels = np.arange(4000) % 4
    generator = np.random.default_rng(0)
    follows = np.where(generator.random(4000) < 0.25, labels, generator.integers(8, size=4000))
    generator = np.random.default_rng(seed)
    few = generator.integers(8, size=4000)
    few[generator.permutation(4000)[40:]] = -1
    experts = np.stack([follows, few])[:, :, None]
    layers = modtf.measure_activations(
        labels=labels, experts=experts, num_experts=8, documents=np.arange(4000)
    )
    assert findings(layers, Names(), {})[0].startswith("Only layer 0 carries information")


def test_draws_that_equal_the_value_are_no_evidence():
    """Two documents have two labellings: half of the draws are the true one, whatever was observed."""
    for seed in range(6):
        generator = np.random.default_rng(seed)
        lengths = generator.integers(150, 300, size=2)
        counts = [[generator.multinomial(length, generator.dirichlet(np.ones(7)))] for length in lengths]
        routing = modtf.read_routing(
            {"counts": np.array(counts), "labels": np.array([0, 1]), "top_k": np.array(1)}
        )
        said = modtf.analyse_routing(routing).found["domain_specialisation"].sentences
        assert "layer 0 routes domains differently" not in " ".join(said)
