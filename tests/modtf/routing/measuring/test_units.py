"""Units and pieces of documents over chunks: numbers that would be wrong without a word."""

import numpy as np
import pytest
from activation_tokens import SPECIALISED, draw_documents, soften

from modtf.routing.measuring import ActivationAccumulator


@pytest.mark.parametrize(
    ("documents", "number", "text"),
    [
        ([2, 2, 1, 1], 4, "Tokens of 1 document are not contiguous"),
        ([2, 2, 0, 0], 4, "Tokens of 1 document are not contiguous"),
        ([2, 1, 2, 1], 3, "Tokens of 2 documents come back"),
        ([2, 1, 2, 2], 3, "Tokens of 2 documents come back"),
        ([1, 1, 2, 2], 3, ""),
    ],
)
def test_a_document_that_comes_back_in_the_next_chunk_is_named(documents, number, text):
    """Documents 0 and 1 come before."""
    sums = ActivationAccumulator()
    for part in ([0, 0, 1, 1], documents):
        sums.update(np.eye(4), [0, 1, 0, 1], part)
    assert sums.tokens.num_documents == number
    warnings = [one for one in sums.result(permutations=2)[0].warnings if "tokens of" in one.lower()]
    assert [one.startswith(text) for one in warnings] == [True] * bool(text)


@pytest.mark.parametrize("most", [2**12, 20])
def test_a_long_document_of_one_label_is_one_unit_whatever_its_spans(most, monkeypatch):
    """It exchanges labels as a whole, even if it has more spans than are kept. Pieces are no documents."""
    monkeypatch.setattr("modtf.routing.measuring.table.LONG", most)  # runs, then a document is cut
    monkeypatch.setattr("modtf.routing.measuring.activations.KEPT", 4 * 20)  # 20 documents, and 20 runs
    gates, labels, documents = draw_documents(SPECIALISED, 12, 60, seed=0)
    gates = np.concatenate([gates, soften(gates[:60], seed=1)[0]])
    labels, documents = np.append(labels, np.arange(60) // 2 % 3), np.append(documents, np.full(60, 12))
    tokens = np.arange(len(labels))
    found = []
    for spans in (np.where(documents < 12, documents, tokens // 2), tokens // 2):
        sums = ActivationAccumulator()
        for part in np.split(tokens, range(50, 780, 60)):  # in the middle of every document
            sums.update(gates[part], labels[part], documents[part], spans[part])
        (table,) = sums.tables
        kept = table.units
        kept.close()
        assert kept.num_whole == 12
        found.append(kept.permuted(np.arange(3), 20, seed=0))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
