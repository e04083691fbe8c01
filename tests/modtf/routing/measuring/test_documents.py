"""The chance level: labels permuted over documents of one label, and within documents of several."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from activation_tokens import INDEPENDENT, LABEL_PROBS, SPECIALISED, draw_documents, draw_tokens, soften

from modtf.metrics import inverse_mutual_information
from modtf.routing.measuring import ActivationAccumulator, measure_activations
from modtf.routing.measuring.estimates import Excess

ADJUSTED = "adjusted_mutual_information"


def documents_of(gates, labels, documents, kept=2**22, **options):
    """Return the documents that an accumulator keeps for its only layer."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("modtf.routing.measuring.activations.KEPT", kept)
        accumulator = ActivationAccumulator(**options)
        for part in np.array_split(np.arange(len(labels)), 3):
            accumulator.update(gates[part], labels[part], documents[part])
    (table,) = accumulator.tables
    table.units.close()
    return table.units


def matrices(sums):
    """Activation matrices and p(label) of sums `[permutations, R, M]`."""
    counts = sums.sum(axis=2)
    return sums / counts[..., np.newaxis], counts / counts.sum(axis=1, keepdims=True)


def information(sums):
    return np.array([1 - inverse_mutual_information(*both) for both in zip(*matrices(sums), strict=True)])


def by_hand(gates, labels, documents, permutations, seed=0):
    """Permute labels by documents, and by tokens within documents of several labels, by hand."""
    generator, found = np.random.default_rng(seed), []
    of = [np.flatnonzero(documents == number) for number in np.unique(documents)]
    one = [tokens for tokens in of if len(set(labels[tokens])) == 1]
    others = [tokens for tokens in of if len(set(labels[tokens])) > 1]
    single = [np.split(tokens, len(tokens)) for tokens in others]
    for _ in range(permutations):
        permuted = labels.copy()
        for exchanging in (one, *single):
            dealt = generator.permutation([labels[tokens[0]] for tokens in exchanging])
            for tokens, label in zip(exchanging, dealt, strict=True):
                permuted[tokens] = label
        found.append([gates[permuted == label].sum(axis=0) for label in np.unique(labels)])
    return np.array(found)


def of_one_label(seed, tokens=600):
    return draw_documents(SPECIALISED, tokens // 6, 6, seed)


def of_several(seed, tokens=600):
    """Draw documents with preferred labels and modules; modules do not depend on labels."""
    generator = np.random.default_rng(seed)
    documents = np.repeat(np.arange(tokens // 12), 12)
    taste = generator.dirichlet(2 * LABEL_PROBS, size=tokens // 12)
    labels = (taste[documents].cumsum(axis=1) < generator.random((tokens, 1))).sum(axis=1).clip(max=2)
    labels[::12] = (labels[1::12] + 1) % 3  # no document has one label
    likes = generator.dirichlet(np.full(4, 4.0), size=tokens // 12)
    modules = (likes[documents].cumsum(axis=1) < generator.random((tokens, 1))).sum(axis=1).clip(max=3)
    return np.eye(4)[modules], labels, documents


def of_one_token(seed, tokens=600):
    gates, labels = draw_tokens(SPECIALISED, tokens, seed)
    return gates, labels, np.arange(tokens)


def of_both_kinds(seed):
    parts = of_one_label(seed), of_several(seed)
    gates, labels, documents = (np.concatenate(pair) for pair in zip(*parts, strict=True))
    return gates, labels, documents + 1000 * (np.arange(len(labels)) >= 600)


@pytest.mark.parametrize("draw", [of_one_label, of_several, of_one_token, of_both_kinds])
@pytest.mark.parametrize("kept", [2**22, 0], ids=["permuted", "limit"])
@pytest.mark.parametrize("view", [0, 1], ids=["mass", "hard"])
def test_sums_are_those_of_permuted_labels(draw, kept, view):
    """Same mean, same spread of every entry, same information by chance, as permuted by hand.

    Runs of equal labels change labels as a whole. Here labels of a document are independent, so that
    permuting single tokens is the true chance.
    """
    hard, labels, documents = draw(0)
    soft = soften(hard, seed=1)[0]
    found = documents_of(soft, labels, documents, kept, top_k=2).permuted(np.arange(3), 300, seed=0)[view]
    largest = np.sort(soft, axis=1)[:, -2:-1]
    gates = np.where(soft >= largest, 0.5 if view else soft, 0.0)
    gates /= gates.sum(axis=1, keepdims=True)
    expected = by_hand(gates, labels, documents, 300)
    np.testing.assert_allclose(found.sum(axis=1), np.tile(gates.sum(axis=0), (300, 1)), rtol=0.02)
    np.testing.assert_allclose(found.mean(axis=0), expected.mean(axis=0), atol=0.02 * len(labels) / 12)
    np.testing.assert_allclose(found.std(axis=0), expected.std(axis=0), rtol=0.25)
    np.testing.assert_allclose(
        found.sum(axis=2).std(axis=0), expected.sum(axis=2).std(axis=0), rtol=0.2, atol=1
    )
    some, others = information(found), information(expected)
    assert abs(some.mean() - others.mean()) < 0.35 * others.std()
    assert some.std() == pytest.approx(others.std(), rel=0.3)


@pytest.mark.parametrize("top_k", [None, 2])
def test_the_limit_holds_where_cells_have_few_tokens(top_k):
    """Two tokens a cell on average. A normal limit, cut off at 0, would be off by a third."""
    generator = np.random.default_rng(0)
    labels = generator.choice(20, size=1500, p=generator.dirichlet(np.full(20, 2.0)))
    logits = 3.0 * (generator.normal(size=(1500, 40)) + np.log(generator.dirichlet(np.ones(40))))
    for documents in (np.arange(1500), np.zeros(1500, int)):
        options = {"from_logits": True, "top_k": top_k}
        limit = documents_of(logits, labels, documents, 0, **options)
        exact = documents_of(logits, labels, np.arange(1500), **options)
        for view in range(2):
            told = [information(d.permuted(np.unique(labels), 60, seed=0)[view]) for d in (exact, limit)]
            assert told[1].mean() == pytest.approx(told[0].mean(), rel=0.03 if view else 0.15)
            assert 0.5 < told[1].std() / told[0].std() < 2, "rather too wide than too narrow"


@pytest.mark.slow
def test_adjusted_information_of_documents_that_know_nothing_is_zero():
    """It is 0 on average. Without correction, or with tokens as documents, it is not."""
    found: dict[str, list[float]] = {"documents": [], "tokens": []}
    options: Any = {"permutations": 20, "num_groups": 3, "groups": ["specialisation"]}
    for seed in range(30):
        gates, _, documents = draw_documents(INDEPENDENT, 40, 20, seed)
        labels = (np.arange(40) % 4)[documents]
        for name, of in (("documents", documents), ("tokens", np.arange(800))):
            (layer,) = measure_activations(gates, labels, documents=of, **options)
            estimate = layer.hard.values[ADJUSTED]
            found[name].append(estimate.value)
            assert estimate.chance == pytest.approx(0, abs=1e-12)
            assert estimate.low <= estimate.value <= estimate.high
    mean = {name: np.mean(values) for name, values in found.items()}
    error = np.std(found["documents"]) / np.sqrt(30)
    assert abs(mean["documents"]) < 3 * error < mean["tokens"]


def test_information_that_chance_cannot_have():
    labels = np.random.default_rng(0).integers(4, size=60)
    (layer,) = measure_activations(np.eye(4)[labels], labels, documents=np.arange(60), permutations=10)
    assert layer.mass.values[ADJUSTED].value == pytest.approx(1)
    (layer,) = measure_activations(np.eye(3), [0, 1, 2], permutations=10)
    assert np.isnan(layer.hard.values[ADJUSTED].value), "one token of each label tells all there is"
    assert "All 3 labels occurred in only one document" in layer.warnings[-1]


def test_what_is_assumed_without_documents_is_said():
    """Tokens of one label in a row look like one document."""
    gates, _, documents = draw_documents(INDEPENDENT, 60, 10, seed=0)
    labels = (np.arange(60) % 3)[documents]
    (given,), (assumed,) = (measure_activations(gates, labels, documents=d) for d in (documents, None))
    assert assumed.mass.values[ADJUSTED].chance_high == given.mass.values[ADJUSTED].chance_high
    assert not any("document" in text for text in given.warnings)
    assert "count as one document, 60 in all" in assumed.warnings[0]
    assert "Give documents=..." in assumed.warnings[0]


def test_documents_may_be_mixed_but_should_not_come_back():
    gates, labels, documents = of_both_kinds(0)
    order = np.random.default_rng(0).permutation(len(labels))
    (found,), (expected,) = (
        measure_activations(gates[o], labels[o], documents=documents[o], permutations=20)
        for o in (order, np.arange(len(labels)))
    )
    for name, estimate in found.hard.values.items():
        chance = expected.hard.values[name].chance
        assert estimate.chance == pytest.approx(chance, rel=0.05, abs=0.02, nan_ok=True)
    number = len(np.unique(documents))
    assert any(text.startswith(f"Tokens of {number} documents come back") for text in found.warnings)
    assert not any("come back" in text for text in expected.warnings)
    half = len(order) // 2
    chunks = [(gates[o], labels[o], documents[o]) for o in (order[:half], order[half:])]
    (pieces,) = measure_activations(chunks, permutations=20)
    assert any("documents are not contiguous" in text for text in pieces.warnings)
    (one,) = measure_activations(gates[:3], [0, 1, 0], documents=[0, 1, 0], permutations=20)
    assert any(text.startswith("Tokens of 1 document come back") for text in one.warnings)


def test_excess_beyond_chance():
    """If a router depends on labels, specialised modules exceed the excess under permuted labels."""
    for A, some in ((SPECIALISED, True), (INDEPENDENT, False)):
        gates, labels, documents = draw_documents(A, 300, 10, seed=0)
        (layer,) = measure_activations(gates, labels, documents=documents)
        view = layer.hard
        beyond = view.excess > np.quantile(view.largest_excess_by_chance, 0.95)
        assert beyond.any() == some
        assert (view.bits > view.bits_by_chance[2]).all() == some
        if some:
            assert beyond[range(3), range(3)].all()
            assert not beyond[1, [0, 2, 3]].any()
        assert view.shuffled is not None
        np.testing.assert_allclose(view.shuffled.sum(axis=1), 1, rtol=1e-6)


def test_a_draw_is_compared_with_the_others():
    drawn = np.random.default_rng(0).normal(size=[9, 4, 3])
    drawn[1:, 0, 0] = drawn[:, 1, 1] = 0.5  # one draw differs from all others, and none does
    found = Excess(drawn)
    for number, one in enumerate(drawn):
        others = np.delete(drawn, number, axis=0)
        spread = others.std(axis=0, ddof=1) * np.sqrt(1 + 1 / 8)
        expected = np.divide(one - others.mean(axis=0), spread, out=np.zeros([4, 3]), where=spread > 1e-9)
        np.testing.assert_allclose(found.draw_excess(one), expected, atol=1e-9)
        np.testing.assert_allclose(Excess(others)(one), expected, atol=1e-9)


def test_no_permutations_and_the_seed():
    gates, labels = draw_tokens(SPECIALISED, 300, seed=0)
    (layer,) = measure_activations(gates, labels, permutations=0)
    alignment = layer.mass.values["alignment"]
    assert alignment.low < alignment.value < alignment.high
    assert layer.mass.shuffled is None
    assert np.isnan([alignment.chance, layer.mass.values[ADJUSTED].value]).all()
    assert np.isnan(layer.mass.top_label_chance).all()
    first, again, other = (measure_activations(gates, labels, permutations=5, seed=s)[0] for s in (0, 0, 1))
    assert repr(first.mass.values) == repr(again.mass.values)
    assert first.mass.values["alignment"].chance != other.mass.values["alignment"].chance


def test_memory_does_not_grow_with_the_number_of_tokens(monkeypatch):
    monkeypatch.setattr("modtf.routing.measuring.activations.KEPT", 5000)
    labels = np.arange(5000) % 4
    gates = (0.6 * np.eye(4) + 0.1)[labels].astype(np.float32)
    accumulator = ActivationAccumulator(top_k=2)
    tracemalloc.start()
    try:
        peaks = []
        for _ in range(4):
            for _ in range(10):
                accumulator.update(gates, labels)
            peaks.append(tracemalloc.get_traced_memory())
            tracemalloc.reset_peak()
    finally:
        tracemalloc.stop()
    current, peak = np.array(peaks).T
    one_round = 10 * gates.nbytes
    assert current[-1] < current[1] + 0.05 * one_round
    assert peak[-1] < peak[1] + 0.05 * one_round
    assert accumulator.result(permutations=2)[0].mass.values["alignment"].value > 0


def uneven(ratio, seed=0):
    """Routers that know nothing: each document has a taste. Documents of label 0 are `ratio` times longer."""
    generator = np.random.default_rng(seed)
    label = np.repeat(np.arange(4), 15)
    documents = np.repeat(np.arange(60), np.where(label == 0, 30 * ratio, 30))
    taste = generator.dirichlet(np.full(8, 2.0), 60)[documents]
    experts = (taste.cumsum(axis=1) < generator.random((len(documents), 1))).sum(axis=1).clip(max=7)
    (layer,) = measure_activations(
        experts=experts[:, np.newaxis], num_experts=8, labels=label[documents], documents=documents,
        permutations=39, seed=seed,
    )  # fmt: skip
    return layer


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [3, 10])
def test_the_chance_level_holds_where_documents_of_one_label_are_longer(ratio):
    values = [uneven(ratio, seed).hard.values["adjusted_mutual_information"] for seed in range(100)]
    assert sum(value.value < value.chance_low for value in values) <= 10
    assert sum(value.value > value.chance_high for value in values) <= 10


@pytest.mark.slow
def test_the_chance_level_holds_for_a_few_long_documents():
    """Three documents of a label with 1,000 tokens each, 97 of four others with 20; all have own tastes."""
    label, above = np.r_[np.zeros(3, int), 1 + np.arange(97) % 4], []
    for seed in range(40):
        generator = np.random.default_rng(seed)
        documents = np.repeat(np.arange(100), np.where(label == 0, 1000, 20))
        taste = generator.dirichlet(np.full(6, 3.0), 100)[documents]
        experts = (taste.cumsum(axis=1) < generator.random((len(documents), 1))).sum(axis=1).clip(max=5)
        (layer,) = measure_activations(
            experts=experts[:, np.newaxis], num_experts=6, labels=label[documents], documents=documents,
            label_probs="uniform", seed=seed,
        )  # fmt: skip
        found = layer.hard.values[ADJUSTED]
        above.append(found.value > found.chance_high)
    assert sum(above) <= 3


def test_documents_with_an_expert_of_their_own_say_nothing_of_labels():
    generator = np.random.default_rng(0)
    documents = np.repeat(np.arange(40), np.ceil(generator.lognormal(3, 0.8, 40)).astype(int))
    labels = generator.permutation(np.arange(40) % 4)[documents]
    (layer,) = measure_activations(
        experts=documents[:, np.newaxis], num_experts=40, labels=labels, documents=documents, permutations=39
    )
    found = layer.hard.values[ADJUSTED]
    assert found.value <= found.chance_high + 1e-6


@pytest.mark.parametrize(("runs", "said"), [(1, True), (2, False)])
def test_labels_with_one_run_in_one_document_are_named(runs, said):
    """A concatenated text: nothing can be exchanged."""
    labels = np.tile(np.repeat(np.arange(3), 100), runs)
    (layer,) = measure_activations(np.eye(3)[labels], labels, documents=0 * labels, permutations=10)
    words = "All 3 labels occurred in only one document or run,"
    assert any(text.startswith(words) for text in layer.warnings) is said
