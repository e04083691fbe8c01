"""Counts of choices: arguments that do not fit them are refused; before, they were ignored in silence."""

import numpy as np
import pytest

import modtf
from modtf.routing.measuring.activations import Counted

TOKENS = np.array([9, 7, 8, 5])  # of each document
COUNTS = np.array([[4, 3, 2], [0, 3, 4], [2, 2, 4], [5, 0, 0]])[:, np.newaxis]  # one choice each
SHARED = np.append(TOKENS[:, np.newaxis, np.newaxis], COUNTS, axis=2)  # expert 0 gets every token


def test_two_axes_of_counts_are_refused():
    """Rows may be documents or layers."""
    message = r"shape \(4, 3\); expected \[documents, layers, experts\]\. Give counts\[:, np\.newaxis\] for "
    with pytest.raises(ValueError, match=message):
        modtf.read_routing({"counts": COUNTS[:, 0]})


def test_a_shared_expert_of_counts_gets_every_token():
    routing = modtf.read_routing({"counts": SHARED}, shared=[0], top_k=1)
    assert isinstance(routing.activations, Counted)
    np.testing.assert_array_equal(routing.activations.counts, COUNTS)
    placeholder = np.append(SHARED, [[[0, 1, 2, 3]]] * 4, axis=1)
    with pytest.warns(UserWarning, match="The layers of a document count"):
        modtf.read_routing({"counts": placeholder}, shared=[0])
    short = SHARED - [[[1, 0, 0, 0]]]  # as if one token of each document missed it
    for counts, expert in ((SHARED, 1), (short, 0), (SHARED, 4)):
        with pytest.raises(ValueError, match=f"shared holds {expert}, but .* expected an expert that every"):
            modtf.read_routing({"counts": counts}, shared=[expert], top_k=1, num_experts=5)


def test_counts_have_one_number_of_choices():
    routing = modtf.read_routing({"counts": [[[1, 2, 3]]], "top_k": 2}, top_k=2)
    assert np.array(routing.measure()[0].label_counts).tolist() == [routing.num_tokens] == [3]
    with pytest.raises(ValueError, match=r"--top_k=1 \(top_k=1\) is not valid; expected 2, which the counts"):
        modtf.read_routing({"counts": [[[1, 2, 3]]], "top_k": 2}, top_k=1)


def test_an_unknown_number_of_choices_is_noted():
    """All 20 tokens of a document choose expert 0 and one of the others. Counts alone do not say so."""
    counts = np.random.default_rng(0).multinomial(20, [0, 0.5, 0.5], size=(8, 1))
    counts[..., 0] = 20
    arrays = {"counts": counts, "labels": np.arange(8) % 2}
    names = ("load", "domain_specialisation", "standing_committee")
    note = "The number k of experts per token is unknown, so each choice counts as a token. If k is above 1, "
    for top_k, share in ((None, 0.5), (2, 1)):
        routing = modtf.read_routing(arrays, top_k=top_k)
        how = f"Counts of choices, {top_k} per token." if top_k else "Counts of choices, 1 per token (k is"
        assert routing.measure(permutations=0)[0].how.startswith(how)
        found = modtf.analyse_routing(routing, names).found
        table = found["domain_specialisation"].table.set_index("measure")
        assert table.loc["largest_share", "value"] == share
        for name in names:
            assert [text.startswith(note) for text in found[name].notes] == [True] * (top_k is None)
