"""Passages whose tokens have the colour of their first expert."""

import re

import numpy as np
import pytest

import modtf
from modtf.pages import page
from modtf.routing.report.sections import TOKENS, neighbours, passages_section

WORDS = ("<i>", "\u0120law", "x\n")


TOKEN_IDS = np.random.default_rng(0).integers(3, size=120)


def arrays(**others):
    """Return two layers of 120 tokens of three documents; the second choice is always expert 3."""
    first = np.stack([TOKEN_IDS, np.arange(120) % 2])
    experts = np.stack([first, np.full_like(first, 3)], axis=-1)
    documents = np.repeat([0, 1, 2], [10, 50, 60])
    return {"experts": experts, "num_experts": 4, "documents": documents, "tokens": TOKEN_IDS} | others


def shown(data, chosen=1):
    return page.render("", passages_section(modtf.read_routing(data), chosen, 0))


@pytest.mark.parametrize("texts", [{"token_names": np.array(WORDS)}, {"tokens": np.array(WORDS)[TOKEN_IDS]}])
def test_each_token_has_its_experts_in_every_layer(texts):
    text = shown(arrays(**texts))
    tokens = re.findall(r'<b style="--0:(\d);--1:(\d);">(.*?)</b><wbr>(\n?)', text)
    words = [("&lt;i&gt;", ""), (" law", ""), ("x\u21b5", "\n")]
    expected = [(str(one), str(place % 2), *words[one]) for place, one in enumerate(TOKEN_IDS.tolist())]
    assert tokens == expected
    assert re.findall(r'id="in-layer-(\d)"( checked)?', text) == [("0", ""), ("1", " checked")]
    assert "Layer 1: the same first expert for 0.0% of neighbours, " in text
    assert "<script" not in text


def test_passages_are_long_documents_of_different_labels():
    documents = np.repeat(np.arange(6), [10, 80, 80, 80, 200, 80])
    labels = np.array(["a", "a", "a", "a", "b", "c"])[documents]
    tokens = np.array(WORDS)[np.arange(530) % 3]
    data = {"experts": np.zeros((530, 1), int), "num_experts": 2, "tokens": tokens}
    text = shown(data | {"documents": documents, "labels": labels}, 0)
    titles = re.findall(r'class="small">(.*?)</p>\n<p class="passage">(.*)', text)
    assert [title for title, _ in titles] == ["Document 1 (a)", "Document 4 (b)", "Document 5 (c)"]
    assert text.count("<b style") == 80 + TOKENS + 80
    assert "From token 0" in shown(data, 0)


def test_drawn_tokens_of_a_text_without_documents_are_neighbours(monkeypatch):
    monkeypatch.setattr("modtf.routing.report.sections.MOST_TOKENS", 40)
    without = {
        name: values for name, values in arrays(token_names=np.array(WORDS)).items() if name != "documents"
    }
    assert "Layer 1: the same first expert for 0.0% of neighbours, " in shown(without)


def test_without_texts_there_are_no_passages():
    assert not passages_section(modtf.read_routing(arrays()), 0, 0)


def test_chance_is_the_mean_over_permuted_documents():
    generator = np.random.default_rng(0)
    documents, experts = np.repeat([0, 1], [30, 50]), generator.integers(-1, 3, size=80)
    experts[30:] = np.maximum(experts[30:], 1)
    value, chance = neighbours(experts, documents)
    pairs = (documents[1:] == documents[:-1]) & (experts[1:] >= 0) & (experts[:-1] >= 0)
    assert value == pytest.approx((experts[1:] == experts[:-1])[pairs].mean())
    drawn = []
    for _ in range(2000):
        kept = [np.flatnonzero((documents == one) & (experts >= 0)) for one in (0, 1)]
        permuted = experts.copy()
        for places in kept:
            permuted[places] = generator.permutation(experts[places])
        drawn.append((permuted[1:] == permuted[:-1])[pairs].mean())
    assert chance == pytest.approx(np.mean(drawn), abs=0.01)
