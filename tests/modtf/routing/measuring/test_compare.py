"""Two routers on the same tokens: paired differences and matched experts, with known answers."""

from typing import Any

import numpy as np
import pytest
from activation_tokens import INDEPENDENT, SPECIALISED, draw_documents, draw_tokens, softmax
from scipy.stats import t as student

import modtf
from modtf.routing.measuring import Experts, compare_activations, measure_activations
from modtf.routing.measuring.tokens import group_documents

ADJUSTED = "adjusted_mutual_information"


def routed(seed, num_tokens=1200, num_modules=6):
    generator = np.random.default_rng(seed)
    labels = generator.integers(4, size=num_tokens)
    logits = generator.normal(size=(num_tokens, num_modules)) + 2 * np.eye(4, num_modules)[labels]
    return softmax(logits), labels, np.arange(num_tokens) // 10


def test_the_same_router_with_experts_in_another_order():
    order = [3, 5, 0, 1, 2, 4]
    gates, labels, documents = routed(0)
    (found,) = compare_activations(
        {"a": gates, "b": gates[:, order]}, labels, documents=documents, permutations=5
    )
    assert found.experts.tolist() == np.argsort(order).tolist()
    assert found.shared.value == found.shared.low == found.shared.high == pytest.approx(1)
    assert found.shared.chance < 0.5
    np.testing.assert_allclose(found.overlap, 1)
    for values in found.differences.values():
        for name, one in values.items():  # chance is drawn, module by module
            atol = 5e-3 if name == ADJUSTED else 1e-6
            np.testing.assert_allclose([one.value, one.low, one.high], 0, atol=atol)


def test_differences_are_those_of_the_measures_and_intervals_leave_out_documents_of_both():
    """The reference recomputes the measures without each group, by hand."""
    (one, labels, documents), (other, *_) = routed(0), routed(1)
    (found,) = compare_activations({"a": one, "b": other}, labels, documents=documents)
    (a,), (b,) = (measure_activations(gates, labels, documents=documents) for gates in (one, other))
    for by, first, second in (("mass", a.mass, b.mass), ("hard", a.hard, b.hard)):
        for name, estimate in found.differences[by].items():
            assert estimate.value == second.values[name].value - first.values[name].value
    group, probs = group_documents(documents, 32), (np.bincount(labels) / len(labels)).tolist()

    def change(keep):
        options: Any = {
            "documents": documents[keep],
            "permutations": 0,
            "label_probs": probs,
            "groups": "diagnostic",
        }
        layers = [measure_activations(gates[keep], labels[keep], **options)[0] for gates in (one, other)]
        values = [layer.hard.values["top_label_share"].value for layer in layers]
        return values[1] - values[0]

    value, groups = change(group >= 0), np.unique(group)
    left = np.array([change(group != number) for number in groups])
    inverse = len(group) / np.array([(group == number).sum() for number in groups])
    centre = len(groups) * value - ((1 - 1 / inverse) * left).sum()
    pseudo = inverse * value - (inverse - 1) * left
    spread = np.sqrt(((pseudo - centre) ** 2 / (inverse - 1)).mean())
    half = student.ppf(0.975, len(groups) - 1) * spread
    estimate = found.differences["hard"]["top_label_share"]
    assert estimate.low == pytest.approx(min(centre - half, value))
    assert estimate.high == pytest.approx(max(centre + half, value))


@pytest.mark.slow
def test_intervals_hold_the_truth_and_are_narrower_than_unpaired_ones():
    """Both routers follow document preferences, the second less; many documents give the true difference."""
    hits, paired, apart = 0, [], []
    truth = np.mean([difference(1000 + seed, 800)[0].value for seed in range(5)])
    for seed in range(20):
        estimate, halves = difference(seed, 100)
        hits += estimate.low <= truth <= estimate.high
        paired.append((estimate.high - estimate.low) / 2)
        apart.append(np.hypot(*halves))
    assert hits >= 16
    assert np.mean(paired) < 0.8 * np.mean(apart)


def difference(seed, num_documents):
    gates, labels, documents = draw_documents(SPECIALISED, num_documents, 20, seed)
    generator = np.random.default_rng(seed)
    noise = np.eye(4)[generator.integers(4, size=len(labels))]
    other = np.where(generator.random((len(labels), 1)) < 0.15, noise, gates)
    (found,) = compare_activations({"a": gates, "b": other}, labels, documents=documents)
    layers = (
        measure_activations(some, labels, documents=documents, permutations=20)[0] for some in (gates, other)
    )
    estimates = [layer.hard.values[ADJUSTED] for layer in layers]
    return found.differences["hard"][ADJUSTED], [(one.high - one.low) / 2 for one in estimates]


def test_routers_that_know_nothing_of_each_other_share_what_chance_gives():
    first, labels = draw_tokens(INDEPENDENT, 4000, seed=0)
    second = draw_tokens(INDEPENDENT, 4000, seed=1)[0]
    (found,) = compare_activations({"a": first, "b": second}, labels, documents=np.arange(4000))
    assert found.shared.value == pytest.approx(0.3, abs=0.02)  # .4 .4 + .3 .3 + ...
    assert found.shared.chance_low - 0.02 < found.shared.value < found.shared.chance_high + 0.02
    assert found.shared.low < 0.3 < found.shared.high


@pytest.mark.slow
def test_tastes_of_documents_are_no_shared_routing():
    """Documents prefer experts in both routers, independently. Five random experts fit some of them."""
    inside = 0
    for seed in range(20):
        generator = np.random.default_rng(seed)
        documents = np.repeat(np.arange(12), 50)
        runs = {name: np.eye(5)[generator.integers(5, size=12)[documents]] for name in "ab"}
        (found,) = compare_activations(runs, documents=documents, permutations=0, seed=seed)
        inside += found.shared.chance_low <= found.shared.value <= found.shared.chance_high
        assert found.shared.chance > 0.35  # permuted tokens give 0.25
    assert inside >= 17


def test_chosen_experts_of_different_numbers_and_dropped_tokens():
    labels = np.arange(600) % 3
    first = Experts(np.stack([labels, labels + 3], axis=1), num_experts=6)
    ids = np.stack([labels, labels + 3], axis=1) + 2
    ids[::50] = -1
    second = Experts(ids, num_experts=8)
    rows = compare_activations({"a": first, "b": second, "c": first}, labels, documents=np.arange(600))
    assert [(row.run, row.against) for row in rows] == [("b", "a"), ("c", "a")]
    assert sorted(rows[0].experts.tolist()) == [2, 3, 4, 5, 6, 7]
    assert rows[0].shared.value == pytest.approx(2 * 588 / (588 + 600))
    assert rows[0].differences["hard"]["inverse_mutual_information"].value == pytest.approx(0, abs=1e-9)
    (back,) = compare_activations({"b": second, "a": first}, labels, documents=np.arange(600))
    assert back.experts.tolist().count(-1) == 2
    assert np.isnan(back.overlap[[0, 1]]).all()


def test_layers_and_rows():
    gates, labels, documents = routed(0)
    both = np.stack([gates, gates[:, ::-1]])
    rows = compare_activations({"a": both, "b": both[::-1]}, labels, documents=documents)
    assert [row.layer for row in rows] == [0, 1]
    last = rows[1].to_rows()[-1]
    assert list(last) == ["layer", "run", "against", "by", "measure", "value", "low", "high", "chance"]
    assert (last["layer"], last["measure"], last["value"]) == (1, "shared_routing", 1)


def test_bad_input():
    gates, labels, _ = routed(0)
    with pytest.raises(ValueError, match="runs is a; expected a dict of at least two"):
        compare_activations({"a": gates}, labels)
    with pytest.raises(ValueError, match="a has 1 layers and b has 2; expected the same number"):
        compare_activations({"a": gates, "b": np.stack([gates, gates])}, labels)
    with pytest.raises(ValueError, match="a has 5 tokens and b has 1200; expected the same tokens in the"):
        compare_activations({"a": gates[:5], "b": gates}, permutations=0)
    with pytest.raises(ValueError, match="labels have shape"):
        compare_activations({"a": gates, "b": gates[:5]}, labels)


def test_one_document_has_no_interval():
    gates, labels, documents = routed(0)
    (found,) = compare_activations({"a": gates, "b": routed(1)[0]}, labels, documents=0 * documents)
    assert 0 < found.shared.value < 1
    assert np.isnan([found.shared.low, found.shared.high]).all()


def alike(seed, run=200):
    """Two routers whose choices change every `run` tokens and agree in half of these runs."""
    generator = np.random.default_rng(seed)
    first = np.repeat(generator.integers(8, size=100), run)
    second = np.where(np.repeat(generator.random(100) < 0.5, run), first, (first + 1) % 8)
    return {"a": np.eye(8)[first], "b": np.eye(8)[second]}


@pytest.mark.slow
@pytest.mark.parametrize("run", [20, 200, 500])  # 50,000 tokens are more than are used
def test_without_documents_consecutive_tokens_are_not_independent(run):
    """The interval of shared routing holds 1/2. If tokens were independent, it would in few of 20."""
    hits = 0
    for seed in range(20):
        (found,) = compare_activations(alike(seed, run), permutations=0)
        hits += found.shared.low <= 0.5 <= found.shared.high
    assert hits >= 16
    assert found.warnings == ("There are no documents. 64 stretches of consecutive tokens stand for them.",)


def test_runs_of_one_label_stand_for_documents_if_they_are_long():
    runs, labels = alike(0), np.repeat(np.array(["law", "code"])[np.arange(100) % 2], 200)
    documents = np.repeat(np.arange(100), 200)
    assumed, given = (compare_activations(runs, labels, documents=d)[0] for d in (None, documents))
    assert str(assumed.shared) == str(given.shared)
    assert assumed.warnings == ("There are no documents. Runs of tokens of one label stand for them.",)
    assert given.warnings == ()
    (short,) = compare_activations(runs, np.arange(20000) % 2, permutations=2)
    (one,) = compare_activations(runs, np.zeros(20000, int), permutations=2)
    for found in (short, one):
        assert "64 stretches" in found.warnings[0]
        assert found.shared.low < found.shared.value < found.shared.high


@pytest.mark.parametrize("labels", [None, np.repeat(np.arange(100) % 2, 200), np.arange(20000) % 2])
def test_the_documents_are_those_of_router_saturation(labels):
    routing, against = (
        modtf.read_routing(
            {"experts": gates.argmax(axis=1)[:, None], "num_experts": 8}
            | ({} if labels is None else {"labels": labels})
        )
        for gates in alike(0).values()
    )
    (found,) = compare_activations(alike(0), labels, permutations=2)
    notes = modtf.analyse_routing(routing, "saturation", against=against).found["saturation"].notes
    assert found.warnings == notes
