"""Values of analyses: known answers, and a slow form of each definition as the oracle."""

import itertools
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import slow_analyses as slow
from slow_analyses import choices

import modtf
from modtf.routing.analyses import ANALYSES, Options
from modtf.routing.analyses.cache import hits
from modtf.routing.analyses.chance import same_loads
from modtf.routing.analyses.dependence import shifted
from modtf.routing.analyses.sentences import beyond_chance
from modtf.routing.measuring.tokens import paired
from modtf.routing.names import Names

NUMBER, TOP_K, LAYERS = 70, 3, 2  # more experts than one word has bits
DOCUMENTS = np.repeat(np.arange(6), [40, 7, 20, 3, 70, 10])


def routed(seed, dropped=0.1, number=NUMBER):
    generator = np.random.default_rng(seed)
    scores = generator.random((LAYERS, len(DOCUMENTS), number)) + np.linspace(0, 0.6, number)
    experts = np.argsort(-scores, axis=2)[..., :TOP_K]
    lost = generator.random(experts.shape[:2]) < dropped
    experts[lost, -1] = -1
    experts[generator.random(experts.shape[:2]) < dropped / 2] = -1
    return experts


def values(name, data, **options):
    table = ANALYSES[name]().analyse(data, Options(**{"permutations": 2, **options})).table
    return table[table["item"] == ""].set_index(["layer", "measure"])


def test_the_samples_of_both_measures_of_consistency_are_named():
    experts = np.random.default_rng(0).integers(8, size=(1, 9000, 1))
    data = choices(experts, np.arange(9000) // 30, 8, notes=("Assumed.",))
    found = ANALYSES["consistency"]().analyse(data, Options(permutations=1))
    words = "of 9000 tokens are used, from whole documents drawn at random."
    assert found.notes == ("Assumed.", f"SRP: 8190 {words}", f"SCH: 2040 {words}")


@pytest.mark.parametrize("layer", range(LAYERS))
def test_against_plain_python(layer):
    experts, last = routed(0), routed(1)
    data = choices(experts, DOCUMENTS, NUMBER, against=last)
    one = experts[layer]
    first = values("repetition", data).loc[layer]["value"]
    assert first["first_choice_repeated"] == pytest.approx(slow.first_repeated(one, DOCUMENTS))
    assert first["any_choice_repeated"] == pytest.approx(slow.any_repeated(one, DOCUMENTS))
    found = values("consistency", data).loc[layer]["value"]
    assert set(found.index) == {
        f"segment_{what}_{length}"
        for length in (4, 16, 64)
        for what in ("routing_best_performance", "cache_best_hit_rate")
    }
    total = (one >= 0).sum()
    for length in (4, 16, 64):
        expected = slow.srp(one, DOCUMENTS, NUMBER, length)
        assert found[f"segment_routing_best_performance_{length}"] == pytest.approx(expected)
        expected = sum(slow.cached(one, 2 * TOP_K, "ahead", length)) / total
        assert found[f"segment_cache_best_hit_rate_{length}"] == pytest.approx(expected)
    found = values("cache", data).loc[layer]["value"]
    for size in (3, 6, 12, 24):
        for policy in ("lru", "lfu"):
            assert found[f"{policy}_hit_rate_{size}"] == pytest.approx(
                sum(slow.cached(one, size, policy)) / total
            )
    found = values("coactivation", data).loc[layer]["value"]
    assert found["top_partner_share"] == pytest.approx(slow.partner_share(one, NUMBER))
    found = values("saturation", data).loc[layer]["value"]
    assert found["router_saturation"] == pytest.approx(slow.saturation(one, last[layer]))
    taken = one[:, 0] >= 0
    assert found["first_choice_saturation"] == pytest.approx((one == last[layer])[taken, 0].mean())
    if layer == 0:
        found = values("dependence", data).loc[0]["value"]
        assert found["mutual_information"] == pytest.approx(slow.information(one[:, 0], experts[1, :, 0]))


def test_known_answers_of_order():
    """Two documents: experts 0 and 1 in turn, then always expert 2."""
    experts = np.array([0, 1] * 32 + [2] * 64)[np.newaxis, :, np.newaxis]
    data = choices(experts, np.repeat([0, 1], 64), 4)
    assert values("repetition", data).loc[0, "first_choice_repeated"]["value"] == 63 / 126
    found = values("consistency", data).loc[0]["value"]
    # Serving all experts of a segment: 64 + 64 choices of 2 * 64 + 64.
    assert found["segment_routing_best_performance_4"] == pytest.approx(2 * 128 / (192 + 128))
    assert found["segment_cache_best_hit_rate_4"] == (128 - 3) / 128
    found = values("cache", data).loc[0]["value"]
    assert found["lru_hit_rate_1"] == 63 / 128
    assert found["lru_hit_rate_2"] == (62 + 63) / 128


def test_known_answers_of_pairs_and_layers():
    generator = np.random.default_rng(0)
    documents = np.arange(2000) // 20
    group = generator.integers(4, size=2000)
    pair = np.stack([group, group + 4], axis=1)  # i always goes with i + 4
    renumbered = np.stack([(group + 1) % 4, 4 + group], axis=1)  # the next layer renames the first choices
    data = choices([pair, renumbered], documents, 8, against=[pair, renumbered[:, ::-1]])
    found = values("coactivation", data, permutations=9).loc[0, "top_partner_share"]
    assert found["value"] == 1
    assert found["chance_high"] < 0.3
    table = ANALYSES["coactivation"]().analyse(data, Options(permutations=9)).table
    assert set(table[(table["layer"] == 0) & (table["measure"] == "coactivation")]["item"]) == {
        "0+4", "1+5", "2+6", "3+7",
    }  # fmt: skip
    found = values("dependence", data, permutations=39).loc[0]
    assert found.loc["adjusted_mutual_information", "value"] == pytest.approx(1)
    assert found.loc["mutual_information", "value"] == pytest.approx(2, abs=0.01)
    assert found.loc["adjusted_mutual_information", "chance_high"] < 0.01
    found = values("saturation", data, permutations=39)["value"]
    assert found[:, "router_saturation"].tolist() == [1, 1]
    assert found[:, "first_choice_saturation"].tolist() == [1, 0]


def test_documents_alone_are_no_order_no_pair_and_no_dependence():
    """Every document has its own expert in every layer: no more locality than its permuted tokens have."""
    generator = np.random.default_rng(1)
    documents = np.arange(1280) // 64
    own = generator.integers(8, size=(2, 20))[:, documents]
    experts = np.where(generator.random(own.shape) < 0.7, own, generator.integers(8, size=own.shape))
    data = choices(experts[..., np.newaxis], documents, 8)
    for name in ("repetition", "consistency", "cache", "dependence"):
        found = values(name, data, permutations=39)
        inside = (found["value"] <= found["chance_high"]) & (found["value"] >= found["chance_low"])
        assert inside.mean() > 0.8, name
    cache = (
        ANALYSES["cache"]().analyse(data, Options()).table.set_index(["layer", "measure", "item"])["value"]
    )
    assert cache[0, "lru_hit_rate_2", ""] > cache[0, "lru_hit_rate_2", "shuffled"] + 0.2


@pytest.mark.parametrize(("frequent", "ahead"), [(False, None), (True, None), (False, 5)])
def test_a_cache_of_any_size(frequent, ahead):
    experts = routed(3)
    policy = "lfu" if frequent else "ahead" if ahead else "lru"
    for size in range(TOP_K, NUMBER, 13):
        found = hits(experts, NUMBER, size, frequent, ahead)
        assert found.tolist() == [slow.cached(one, size, policy, ahead or 0) for one in experts]


def test_all_matrices_with_the_same_loads_are_equally_likely():
    """Three tokens of two experts, loads 2, 2, 1, 1: all such matrices are counted by hand."""
    experts = np.array([[0, 1], [0, 2], [1, 3]])
    sets = [frozenset(one) for one in itertools.combinations(range(4), 2)]
    allowed = {
        three for three in itertools.product(sets, repeat=3)
        if [sum(i in one for one in three) for i in range(4)] == [2, 2, 1, 1]
    }  # fmt: skip
    drawn = same_loads(experts, np.zeros(3, int), 3000, np.random.default_rng(0))
    counts = Counter(tuple(frozenset(token.tolist()) for token in one) for one in drawn)
    assert set(counts) == allowed
    expected = 3000 / len(allowed)
    assert all(abs(n - expected) < 6 * expected**0.5 for n in counts.values())


def test_loads_and_dropped_choices_stay():
    experts = routed(4)[0]
    (drawn,) = same_loads(experts, DOCUMENTS, 1, np.random.default_rng(0))
    assert ((drawn < 0).sum(axis=1) == (experts < 0).sum(axis=1)).all()
    for mine in (document == DOCUMENTS for document in range(6)):
        before, after = (np.sort(one[mine], axis=None) for one in (experts, drawn))
        assert (before == after).all()
    assert all(len(set(slow.taken(token))) == len(slow.taken(token)) for token in drawn)
    assert (drawn != experts).mean() > 0.8


def test_tokens_are_paired_with_those_of_one_other_document():
    order = paired(DOCUMENTS, np.random.default_rng(0))
    partner = DOCUMENTS[order]
    assert (partner != DOCUMENTS).all()
    assert all(len(set(partner[document == DOCUMENTS])) == 1 for document in range(6))
    assert len(set(partner)) == 6


def test_the_violation_within_documents_is_not_below_0():
    """Two documents have a wide interval, and few permutations a wide band; both end at 0."""
    experts = np.random.default_rng(0).integers(4, size=(60, 1))
    routing = {"experts": experts, "num_experts": 4, "documents": np.arange(60) // 30}
    table = modtf.analyse_routing(routing, "load", permutations=2).found["load"].table
    (row,) = table[table["measure"] == "document_max_violation"].to_dict("records")
    assert row["low"] == row["chance_low"] == 0 < row["value"]


def test_documents_are_shifted_around_their_end():
    documents = np.repeat([0, 1, 2], [5, 1, 2])
    drawn = {tuple(shifted(documents, np.random.default_rng(seed)).tolist()) for seed in range(200)}
    first = {tuple(np.roll(np.arange(5), shift).tolist()) for shift in range(5)}
    assert drawn == {(*some, 5, *rest) for some in first for rest in ((6, 7), (7, 6))}


def test_samples_are_whole_documents():
    ids = np.arange(len(DOCUMENTS))
    data = choices(routed(5), DOCUMENTS, NUMBER, against=routed(6), token_ids=ids, spans=ids)
    some = data.sample(60, seed=0)
    kept = DOCUMENTS[some.token_ids]
    assert 30 <= len(kept) <= 60
    assert all((kept == one).sum() == (one == DOCUMENTS).sum() for one in set(kept))
    assert (some.experts == data.experts[:, some.token_ids]).all()
    assert np.array(some.spans).tolist() == np.array(some.token_ids).tolist()
    assert some.against is not None
    assert (some.against.experts == data.against.experts[:, some.token_ids]).all()
    assert some.notes[-1].startswith(f"{len(kept)} of 150 tokens are used")
    some = data.sample(80, seed=0)  # documents 3, 2, 5 have 33 tokens, and document 4 has 70
    assert np.bincount(DOCUMENTS[some.token_ids]).tolist() == [0, 0, 20, 3, 47, 10]
    assert np.array(some.token_ids).tolist() == sorted(np.array(some.token_ids))
    assert "from 3 whole documents and the start of one, drawn at random" in some.notes[-1]
    assert np.array(data.sample(2, seed=0).token_ids).tolist() == [67, 68]


@pytest.mark.parametrize(("length", "number"), [(1, 8), (2, 8), (10, 2)])
def test_documents_without_a_segment_and_caches_that_hold_all(length, number):
    experts = np.argsort(np.random.default_rng(0).random((2, 20, number)), axis=2)[..., :2]
    data = choices(experts, np.arange(20) // length, number)
    table = ANALYSES["consistency"]().analyse(data, Options(permutations=2)).table
    measures = {name[: -len("_4")] for name in table["measure"] if name.endswith("_4")}
    expected = {"segment_routing_best_performance"} if number == 2 else {"segment_cache_best_hit_rate"}
    assert measures == expected
    assert ANALYSES["cache"]().analyse(data, Options(permutations=2)).table.empty == (number == 2)


def test_a_sentence_has_the_chance_of_the_layers_that_it_names():
    limits = {"chance": [0.3, 0.1], "chance_low": [0.2, 0.08], "chance_high": [0.4, 0.12]}
    table = pd.DataFrame({"layer": [0, 1], "measure": "share", "item": "", "value": [0.1, 0.9], **limits})
    sentence = beyond_chance(table, "share", "carry information", Names())
    assert sentence == "Layer 1 carries information: share up to 0.90, chance 0.080 to 0.12."
