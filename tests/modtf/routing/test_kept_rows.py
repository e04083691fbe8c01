"""Rows that no router wrote, and documents that occur again, are left out or named; other rows are kept."""

import warnings

import numpy as np
import pytest

import modtf
from modtf.routing.measuring.damage import kept_rows

LAYERS, EXPERTS, K = 4, 16, 2


def chosen(generator, tokens, layers=LAYERS, experts=EXPERTS, k=K):
    """Return the experts of a router that knows nothing, `[layers, tokens, k]`."""
    return np.argsort(generator.random((layers, tokens, experts)), axis=2)[..., :k]


def read(experts, **arrays):
    """Return the routing and the warnings about it."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        routing = modtf.read_routing({"experts": experts, "num_experts": EXPERTS, **arrays})
    return routing, [str(note.message) for note in notes]


def conversations(seed, turns=4, talks=24):
    """Return the arrays of conversations that are returned at every turn, and which tokens are of the last.

    The router knows nothing. Each conversation has a label; all turns repeat its rows.
    """
    generator = np.random.default_rng(seed)
    experts, ids, documents, labels, last = [], [], [], [], []
    for talk in range(talks):
        whole, words = chosen(generator, 15 * turns), generator.integers(500, size=15 * turns)
        for turn in range(1, turns + 1):
            length = 15 * turn
            experts.append(whole[:, :length])
            ids.append(words[:length])
            documents.append(np.full(length, turns * talk + turn))
            labels.append(np.full(length, talk % 3))
            last.append(np.full(length, turn == turns))
    arrays = {"tokens": ids, "documents": documents, "labels": labels}
    together = {name: np.concatenate(parts) for name, parts in arrays.items()}
    return together | {"experts": np.concatenate(experts, axis=1)}, np.concatenate(last)


def above(routing):
    """Return whether the adjusted mutual information is above its chance band, by layer."""
    values = [layer.hard.values["adjusted_mutual_information"] for layer in routing.measure()]
    return [value.value > value.chance_high for value in values]


def share_above(draws):
    return np.mean([above(read(**conversations(seed)[0])[0]) for seed in range(draws)])


def test_a_conversation_that_comes_back_counts_once():
    arrays, last = conversations(0)
    routing, notes = read(**arrays)
    assert [note[:21] for note in notes] == ["72 of 96 documents ar"]
    for name, values in {"labels": routing.labels, "documents": routing.documents}.items():
        np.testing.assert_array_equal(values, arrays[name][last])
    np.testing.assert_array_equal(routing.activations.experts, arrays["experts"][:, last])
    del arrays["tokens"]
    routing, notes = read(**arrays)
    assert routing.num_tokens == len(last)
    assert ["Leave out all but the longest of each" in note for note in notes] == [True]


@pytest.mark.slow
def test_routers_that_know_nothing_stay_within_chance():
    """2.5% are above the band: 5 or more of 24 occur in 1 of 2,000 runs. With all turns nearly all are."""
    assert share_above(6) * 24 < 5


@pytest.mark.parametrize("same_ids", [True, False])
def test_documents_that_only_look_alike_are_kept(same_ids):
    """Equal ids with other rows are another computation; a short document may occur by chance."""
    experts = chosen(np.random.default_rng(0), 40)
    documents = np.repeat(np.arange(2), 20) if same_ids else np.arange(40) // 4
    routing, notes = read(
        experts, documents=documents, tokens=np.tile(np.arange(20 if same_ids else 4), 2 if same_ids else 10)
    )
    assert (routing.num_tokens, notes) == (40, [])


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("fill", ["stale", "first", "zeros"])
def test_rows_that_no_router_wrote_are_left_out(fill, k):
    experts = chosen(np.random.default_rng(0), 90, k=k)
    value = {"stale": experts[:, 20:21], "first": np.arange(k), "zeros": 0}[fill]
    experts[:, 20:32] = value
    routing, notes = read(experts, labels=np.arange(90))
    left = np.delete(np.arange(90), np.s_[20:32])
    np.testing.assert_array_equal(routing.activations.experts, experts[:, left])
    np.testing.assert_array_equal(routing.labels, left)
    assert notes[0].startswith("12 of 90 tokens repeat one row in all layers (4)")
    assert notes[0].endswith("tokens 20 to 31. They are left out.")
    assert not [note for note in notes[1:] if "are counted" in note or "left out" in note]


@pytest.mark.parametrize("layers", [LAYERS, 2])
def test_scattered_padding(layers):
    """In many layers filled rows are no chance; in two layers they may be, so they are named and counted."""
    experts = chosen(np.random.default_rng(0), 90, layers)
    experts[:, ::4] = [0, 1]
    routing, notes = read(experts)
    assert routing.num_tokens == (67 if layers == LAYERS else 90)
    assert [note.rpartition(". ")[0] for note in notes if "experts 0 to 1 in all" in note]
    experts[:, ::4] = 0
    assert read(experts)[0].num_tokens == 67


def test_equal_layers_are_named():
    experts = chosen(np.random.default_rng(0), 90)
    experts[3] = experts[1]
    assert read(experts)[1][0].startswith("Layers 1 and 3 have the same row for every token")


SIZES = [(1, 4, 1), (2, 4, 2), (2, 8, 1), (4, 16, 2), (12, 64, 8)]  # layers, experts, k


@pytest.mark.parametrize(("layers", "experts", "k"), SIZES)
@pytest.mark.parametrize("kind", ["nothing", "sticky", "labels", "same experts in all layers"])
def test_rows_of_routers_are_kept(kind, layers, experts, k):
    generator = np.random.default_rng(0)
    tokens = 3000
    rows = chosen(generator, tokens, layers, experts, k)
    labels = np.repeat(generator.integers(5, size=tokens // 20), 20)
    if kind == "sticky":  # a token repeats the row before it nine times of ten
        source = np.maximum.accumulate(np.where(generator.random(tokens) < 0.1, np.arange(tokens), 0))
        rows = rows[:, source]
    if kind in ("labels", "same experts in all layers"):  # a label has its experts, but for some noise
        own = chosen(generator, 5, 1 if kind.startswith("same") else layers, experts, k)
        own = np.sort(np.broadcast_to(own, (layers, 5, k)))
        rows = np.where(generator.random((1, tokens, 1)) < 0.2, rows, own[:, labels])
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        assert kept_rows(list(rows)).all()
    assert not notes or kind in ("labels", "same experts in all layers")


def test_gates_are_checked_too():
    gates = np.random.default_rng(0).dirichlet(np.ones(8), (3, 90))
    gates[:, 20:32] = gates[:, 20:21]
    with pytest.warns(UserWarning, match="tokens 20 to 31. They are left out"):
        assert modtf.read_routing({"activations": gates}).num_tokens == 78


@pytest.mark.parametrize("stale", [False, True])
def test_rows_that_a_document_prefers_are_no_stale_rows(stale):
    """A top-1 router follows documents, so one row is frequent in each; a stale row is frequent nowhere."""
    generator = np.random.default_rng(7)
    documents = np.repeat(np.arange(300), 60)
    preferred = chosen(generator, 300, layers=2, k=1)[:, documents]
    experts = np.where(
        generator.random((1, len(documents), 1)) < 0.35, preferred, chosen(generator, len(documents), 2, k=1)
    )
    if stale:
        experts[:, 6010:6030] = np.array([[[3]], [[9]]])
    routing, notes = read(experts, labels=documents % 5, documents=documents)
    assert len(routing.labels) == len(documents) - 20 * stale
    assert any("6010 to 6029" in note for note in notes) == stale
