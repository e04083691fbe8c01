"""Values of analyses against loops over tokens, and against routers whose values are known."""

import re
from collections import Counter, defaultdict
from itertools import chain

import numpy as np
import pytest
from ignorant_routers import ignorant

import modtf
from modtf.routing import Names, Routing
from modtf.routing.analyses.load import balanced_limits
from modtf.routing.measuring import Gates


def value(found, measure, layer=0, item="", column="value"):
    table = found.table
    rows = table[(table["measure"] == measure) & (table["layer"] == layer) & (table["item"] == item)]
    return float(rows[column].iloc[0])


def loop_over_tokens(ids, experts, least=1):
    """Return OLMoE's average as a loop: the largest expert's share of each id, averaged over ids."""
    chosen = defaultdict(list)
    for one, some in zip(ids.tolist(), experts.tolist(), strict=True):
        chosen[one].append([expert for expert in some if expert >= 0])
    shares = [
        max(Counter(chain(*lists)).values(), default=0) / len(lists)
        for lists in chosen.values()
        if len(lists) >= least
    ]
    return np.mean(shares)


def test_vocabulary_specialisation_is_that_of_a_loop():
    arrays = ignorant(3)
    arrays["experts"][0, ::7, 1] = -1  # dropped choices
    (found,) = modtf.analyse_routing(arrays, "vocabulary_specialisation", permutations=2).found.values()
    ids, experts, documents = arrays["tokens"], arrays["experts"][0], arrays["documents"]
    follows = np.flatnonzero(np.diff(documents) == 0)
    for name, of, some in (
        ("first_choice_input", ids, experts[:, :1]),
        ("any_choice_input", ids, experts),
        ("first_choice_next", ids[follows + 1], experts[follows, :1]),
        ("first_choice_predicted", arrays["predicted_tokens"], experts[:, :1]),
    ):
        assert value(found, name) == pytest.approx(loop_over_tokens(of, some))
        assert value(found, f"{name}_frequent") == pytest.approx(loop_over_tokens(of, some, 10))


def test_a_random_router_scores_high_on_the_published_average():
    """With 64 experts a uniform share is 1.6%, but ids that occur once count as 100%."""
    generator = np.random.default_rng(0)
    arrays = {
        "experts": generator.integers(64, size=(4000, 1)), "num_experts": 64,
        "documents": np.arange(4000) // 100, "tokens": generator.zipf(1.4, size=4000) % 50_000,
    }  # fmt: skip
    found = modtf.analyse_routing(arrays, "vocabulary_specialisation").found["vocabulary_specialisation"]
    name = "first_choice_input"
    assert value(found, name) > 0.5
    assert (
        value(found, name, column="chance_low")
        <= value(found, name)
        <= value(found, name, column="chance_high")
    )
    assert abs(value(found, f"{name}_frequent_excess")) < 0.02


@pytest.mark.parametrize("name", ["vocabulary_specialisation", "coactivation"])
def test_the_best_of_many_items_is_not_named_where_no_layer_is_above_chance(name):
    found = modtf.analyse_routing(ignorant(0), name).found[name]
    items = found.table[found.table["item"] != ""]
    assert len(items)
    assert items[["chance_low", "chance_high"]].isna().all(axis=None), "the band of a fixed item"
    assert not any("most specialised" in text or "go together" in text for text in found.sentences)


@pytest.mark.parametrize("seed", range(3))
def test_no_domain_is_named_where_no_layer_is_above_chance(seed):
    arrays = ignorant(seed)
    arrays["labels"] = np.where(arrays["documents"] < 2, 3, arrays["documents"] % 3)  # a small domain
    (found,) = modtf.analyse_routing(arrays, "domain_specialisation").found.values()
    assert found.sentences[0].startswith("No layer routes domains differently beyond chance")
    assert not any("routed most differently" in text for text in found.sentences)


def test_a_rare_id_is_not_named_for_its_size():
    """One of 260 ids with 10 tokens differs more from chance than ids that send 15% to one expert."""
    generator = np.random.default_rng(4)
    ids = generator.permutation(
        np.concatenate([np.repeat(np.arange(40), 100), np.repeat(np.arange(40, 300), 10)])
    )
    experts = generator.integers(16, size=(2, len(ids), 1))
    moved = (ids < 40) & (generator.random(len(ids)) < 0.15)
    experts[1, moved, 0] = ids[moved] % 16
    arrays = {"experts": experts, "num_experts": 16, "tokens": ids, "documents": np.arange(len(ids)) // 100}
    (found,) = modtf.analyse_routing(arrays, "vocabulary_specialisation").found.values()
    named = re.search(r"most specialised token id is (\d+) in layer 1", found.sentences[-1])
    assert named
    assert int(named[1]) < 40
    items = found.table[found.table["item"] == named[1]]
    assert (items["value"] > items["limit"]).all()


def test_a_rare_pair_is_not_named_for_its_size():
    """Sixteen experts are chosen rarely. A pair of them that met twice is no finding."""
    generator = np.random.default_rng(7)
    scores = np.log(np.where(np.arange(64) < 16, 0.03, 1.0)) + generator.gumbel(size=(1, 4000, 64))
    experts = np.argsort(-scores, axis=2)[..., :2]
    experts[0, generator.random(4000) < 0.01] = [40, 41]
    arrays = {"experts": experts, "num_experts": 64, "documents": np.arange(4000) // 100}
    (found,) = modtf.analyse_routing(arrays, "coactivation").found.values()
    assert found.sentences[-1].startswith("Experts 40 and 41 of layer 0 go together")


def test_a_small_domain_is_not_named_for_its_size():
    """50 tokens of domain 0 differ more from all tokens than domain 1, whose routing is another."""
    generator = np.random.default_rng(0)
    documents, experts = np.arange(6000) // 50, generator.integers(64, size=(6000, 1))
    labels = np.where(documents == 0, 0, 1 + documents % 2)
    moved = (labels == 1) & (generator.random(6000) < 0.2)
    experts[moved] = generator.integers(8, size=(moved.sum(), 1))
    arrays = {"experts": experts, "num_experts": 64, "labels": labels, "documents": documents}
    found = modtf.analyse_routing(arrays, "domain_specialisation").found["domain_specialisation"]
    assert value(found, "domain_distance", item="0") > value(found, "domain_distance", item="1")
    assert "routed most differently is 1 in" in found.sentences[1]


def test_a_router_by_token_id_is_found():
    arrays = ignorant(0)
    arrays["experts"][1, :, 0] = arrays["tokens"] % 8
    arrays["experts"][1, :, 1] = (arrays["tokens"] + 1) % 8
    found = modtf.analyse_routing(arrays, "vocabulary_specialisation").found["vocabulary_specialisation"]
    assert value(found, "first_choice_input_frequent", layer=1) == 1.0
    assert value(found, "first_choice_input_frequent_excess", layer=1) > 0.5
    assert found.sentences[0].startswith("Layer 1 sends tokens of one id to the same expert:")


def test_domain_specialisation_of_a_router_by_domain():
    arrays = ignorant(0)
    arrays["experts"][1] = 2 * arrays["labels"][:, np.newaxis] + np.arange(2)
    (found,) = modtf.analyse_routing(arrays, "domain_specialisation").found.values()
    assert value(found, "domain_distance", layer=1) == pytest.approx(0.75)  # 3 of 4 choices go elsewhere
    assert value(found, "domain_distance", layer=1, item="law") == pytest.approx(0.75)
    assert value(found, "largest_share", layer=1) == 1.0
    assert value(found, "specialised_experts", layer=1) == 8
    assert found.sentences[0].startswith(
        "Layer 1 routes domains differently: domain distance up to 0.75, chance"
    )
    counts = np.bincount(arrays["experts"][0][arrays["labels"] == 2].ravel(), minlength=8)
    everywhere = np.bincount(arrays["experts"][0].ravel(), minlength=8)
    distance = np.abs(counts / counts.sum() - everywhere / everywhere.sum()).sum() / 2
    assert value(found, "domain_distance", item="news") == pytest.approx(distance)


def test_load_of_a_collapsed_and_of_an_even_layer():
    arrays = ignorant(0)
    arrays["experts"][0] = [2, 3]
    arrays["experts"][0, 0] = [3, 2]  # a layer with equal rows is a placeholder
    arrays["experts"][1] = (np.arange(1200)[:, np.newaxis] * 2 + np.arange(2)) % 8
    (found,) = modtf.analyse_routing(arrays, "load").found.values()
    expected = {"utilisation": (0.25, 1.0), "dead_experts": (6, 0), "max_violation": (3, 0)}
    expected |= {"load_variation": (np.sqrt(3), 0), "document_max_violation": (3, 8 / 7.5 - 1)}
    for measure, values in expected.items():
        for layer in (0, 1):
            assert value(found, measure, layer) == pytest.approx(values[layer]), (measure, layer)
    assert value(found, "load", item=2) == 0.5
    assert found.sentences[0] == "6 experts of layer 0 are dead: no token chose them, chance 0."


def test_the_committee_of_a_router_with_two_experts_for_all():
    arrays = ignorant(0)
    arrays["experts"][1] = [5, 6]
    arrays["experts"][1, :4] = [0, 1]
    (found,) = modtf.analyse_routing(arrays, "standing_committee").found.values()
    assert value(found, "always_on_experts", layer=1) == 2
    assert value(found, "committee_share", layer=1) == pytest.approx(1 - 4 / 300)
    assert value(found, "committee_overlap", layer=1) == 1.0
    assert found.sentences[-1].endswith("of every domain choose: 2 in 1 of 2 layers.")


@pytest.mark.parametrize(("experts", "layers", "tokens", "k"), [(64, 20, 200, 1), (32, 6, 60, 2)])
def test_balanced_routers_exceed_the_limits_of_the_load_seldom(experts, layers, tokens, k):
    """Over all layers in at most 2.5% of routers; draws of whole numbers make it fewer."""
    generator, beyond = np.random.default_rng(0), []
    limits = balanced_limits(np.array([0] * k + [tokens]), experts, layers)
    for _ in range(200):
        picked = generator.random((layers, tokens, experts)).argpartition(k - 1, axis=2)[..., :k]
        counts = np.stack([np.bincount(layer.ravel(), minlength=experts) for layer in picked])
        values = {"dead_experts": (counts == 0).sum(axis=1), "max_violation": counts.max(axis=1) * experts}
        values["max_violation"] = values["max_violation"] / (tokens * k) - 1
        beyond.append([(values[name] > limit + 1e-9).any() for name, limit in limits.items()])
    assert (np.mean(beyond, axis=0) <= 0.06).all()
    assert limits["dead_experts"] <= experts * (1 - k / experts) ** tokens + 8


def test_layers_with_different_numbers_of_experts_are_refused():
    gates = [np.eye(number)[np.arange(600) % number] for number in (8, 4)]
    routing = Routing(Gates(gates), None, np.arange(600) // 20, Names(), {})
    with pytest.raises(ValueError, match="Layers have 4 and 8 experts; analyses need equal numbers"):
        modtf.analyse_routing(routing, "load")
