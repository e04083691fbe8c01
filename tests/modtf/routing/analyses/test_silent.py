"""Numbers that would be wrong without a word: short documents, few draws, dropped choices, other orders."""

from collections import Counter

import numpy as np
import pytest
from ignorant_routers import ignorant, unrelated
from slow_analyses import choices, saturation

import modtf
from modtf.routing.analyses import ANALYSES, Options, load, read_choices, rows_of
from modtf.routing.analyses.cache import hits
from modtf.routing.analyses.chance import balanced_loads
from modtf.routing.analyses.domains import counts_of_domains
from modtf.routing.measuring.damage import ONE_ASSUMED
from modtf.routing.measuring.estimates import mean_and_range

ORDER = ("vocabulary_specialisation", "coactivation", "repetition", "consistency", "cache", "dependence")


def variable(seed=0):
    """Return the arrays of a router that sends tokens to one to four of eight experts, or to none."""
    arrays = ignorant(seed)
    generator = np.random.default_rng(seed)
    experts = np.argsort(-generator.gumbel(size=(2, 1200, 8)) - np.linspace(1, 0, 8), axis=2)[..., :4]
    number = generator.integers(5, size=(2, 1200, 1))
    experts[..., 0] = np.where(generator.random((2, 1200)) < 0.95, 0, 7)  # expert 0 is always on
    experts[..., 1:] = np.where(experts[..., 1:] % 7 == 0, -1, experts[..., 1:])
    return arrays | {"experts": np.where(np.arange(4) < np.maximum(number, 1), experts, -1), "weights": None}


def table(name, arrays, **options):
    arrays = {key: value for key, value in arrays.items() if value is not None}
    found = modtf.analyse_routing(arrays, name, **options).found[name].table
    return found.set_index(["layer", "measure", "item"])


@pytest.mark.parametrize("name", ORDER)
def test_documents_of_one_token_have_no_order(name):
    """Permuting within them changes nothing, so any dependence would look like chance."""
    arrays = ignorant(0) | {"documents": np.arange(1200)}
    assert "needs documents of two or more tokens" in modtf.analyse_routing(arrays, name).missing[name]
    arrays["documents"] = np.maximum(np.arange(1200) - 1000, 0)
    (found,) = modtf.analyse_routing(arrays, name, permutations=2).found.values()
    assert "199 of 200 documents have one token." in "".join(found.notes)


@pytest.mark.parametrize("number", [5, 60, 511])
def test_few_tokens_without_documents_are_stretches_of_several(number):
    experts = np.random.default_rng(0).integers(8, size=(number, 1))
    data = read_choices(modtf.read_routing({"experts": experts, "num_experts": 8}))
    assert np.bincount(data.documents).min() >= min(number, 8)


def test_the_other_checkpoint_has_the_same_tokens_in_the_same_order():
    """Interleaved documents are sorted. A file of the other checkpoint may lack them."""
    arrays = ignorant(0) | {"documents": np.arange(1200) % 7}
    last = unrelated(arrays, 1)
    expected = saturation(arrays["experts"][0], last["experts"][0])
    for lacking in ((), ("documents",), ("documents", "labels", "label_names", "tokens")):
        other = {name: value for name, value in last.items() if name not in lacking}
        found = table("saturation", arrays, against=other)
        assert found.loc[0, "router_saturation", ""]["value"] == pytest.approx(expected)
    for name in ("tokens", "documents"):
        wrong = last | {name: np.roll(last[name], 1)}
        with pytest.raises(ValueError, match=f"against and routing have different {name} from token"):
            modtf.analyse_routing(arrays, "saturation", against=wrong)
    swapped = last | {"documents": (arrays["documents"] + 1) % 7}  # the same lengths in another order
    names = np.array(["a", "b", "c", "d", "e", "f", "g"])[arrays["documents"]]
    named, other = arrays | {"documents": names}, last | {"documents": np.char.add(names, " of others")}
    for one, wrong in ((arrays, swapped), (named, other)):
        with pytest.raises(ValueError, match="against and routing have different documents from token 0 on"):
            modtf.analyse_routing(one, "saturation", against=wrong)


def test_layers_of_another_checkpoint_with_other_names_are_named():
    arrays = ignorant(0) | {"layer_names": np.array(["0", "a"])}
    for name in "ba":
        last = unrelated(arrays, 1) | {"layer_names": np.array(["0", name])}
        (found,) = modtf.analyse_routing(arrays, "saturation", against=last, permutations=2).found.values()
        assert ("such as 'a' and 'b'." in "".join(found.notes)) == (name == "b")


@pytest.mark.parametrize("number", [1, 2, 5, 6])
def test_few_documents_have_too_few_pairings_for_limits(number):
    """With limits, 20% to 68% of unrelated checkpoints were outside."""
    arrays = ignorant(0) | {"documents": np.arange(1200) * number // 1200}
    (found,) = modtf.analyse_routing(arrays, "saturation", against=unrelated(arrays, 1)).found.values()
    assert found.table["chance"].notna().all()
    assert found.table["chance_low"].notna().all() == (number == 6)
    assert (f"and {number} documents have too few pairings." in "".join(found.notes)) == (number < 6)


def test_shares_of_tokens_that_choose_a_variable_number_of_experts():
    arrays = variable()
    tokens: Counter[int] = Counter()
    chosen: Counter[tuple[int, int]] = Counter()
    for label, some in zip(arrays["labels"].tolist(), arrays["experts"][0].tolist(), strict=True):
        tokens[label] += 1
        for expert in some:
            chosen[label, expert] += expert >= 0
    shares = {key: number / tokens[key[0]] for key, number in chosen.items()}
    found = table("domain_specialisation", arrays).loc[0, "largest_share", ""]
    assert found["value"] == pytest.approx(max(shares.values()))
    assert found["chance"] == pytest.approx(found["value"], abs=0.02)
    always = [expert for expert in range(8) if min(shares.get((d, expert), 0) for d in range(4)) >= 0.9]
    assert table("standing_committee", arrays).loc[0, "always_on_experts", ""]["value"] == len(always) == 1


def test_a_balanced_router_has_the_choices_of_each_token():
    """The variance of a load is the sum over tokens of k/E (1 - k/E)."""
    tokens = np.array([50, 400, 0, 0, 300])
    loads = balanced_loads(tokens, 8, 4000, np.random.default_rng(0))
    assert (loads.sum(axis=1) == 400 + 4 * 300).all()
    assert loads.mean() == pytest.approx(1600 / 8)
    assert loads.var(axis=0).mean() == pytest.approx(400 * 7 / 64 + 300 / 4, rel=0.05)


@pytest.mark.parametrize("permutations", [0, 1])
def test_sentences_hold_no_unknown_number(permutations):
    arrays = ignorant(0)
    found = modtf.analyse_routing(arrays, against=unrelated(arrays, 1), permutations=permutations).found
    for name, one in found.items():
        assert "nan" not in " ".join(one.sentences), name


def test_a_label_without_letters_is_not_the_whole_layer():
    arrays = ignorant(0) | {"label_names": np.array(["", "law", "news", "verse"])}
    found = table("domain_specialisation", arrays, permutations=2).sort_index().loc[0, "domain_distance"]
    assert found.index.tolist() == ["", "''", "law", "news", "verse"]


def test_few_permutations_give_a_band_that_holds_95_in_100():
    values = np.random.default_rng(0).normal(size=(21, 4000))
    for number in (2, 5, 20):
        _, low, high = mean_and_range(values[:number])
        assert ((low <= values[20]) & (values[20] <= high)).mean() == pytest.approx(0.95, abs=0.012)
    assert np.isnan(mean_and_range(values[:1])[1:]).all()
    assert table("load", ignorant(0), permutations=1)["chance_high"].isna().all()


def test_a_value_is_not_beyond_chance_by_rounding():
    (row,) = rows_of(0, {"x": 0.1 + 0.2}, chance=[{"x": 0.3}, {"x": 0.1}] * 20)
    assert row["value"] == row["chance_high"]


@pytest.mark.filterwarnings("ignore:.* repeat one row in all layers")
def test_intervals_end_at_the_possible_values():
    arrays = ignorant(0)
    arrays["experts"][:, :1170] = [0, 1]
    for name in ANALYSES:
        found = table(name, arrays, against=arrays).reset_index()
        shares = found[~found["measure"].str.contains("excess|mutual|violation|variation|experts")]
        assert not (shares[["low", "chance_low"]] < 0).any(axis=None), name
        assert not (shares[["high", "chance_high"]] > 1).any(axis=None), name


def test_a_domain_of_one_document_stays_when_its_group_is_left_out():
    documents = np.repeat(np.arange(6), 20)
    experts = np.random.default_rng(0).integers(4, size=(1, 120, 2))
    experts[..., 1] = (experts[..., 0] + 1) % 4
    data = choices(experts, documents, 4, labels=(documents > 0).astype(int))
    (found,) = counts_of_domains(data, Options())
    assert (found.without.sum(axis=2) > 0).all()
    alone = found.without[data.groups[0]]
    assert (alone == found.counts).all()


@pytest.mark.parametrize(("dealt", "error"), [(2**16, 0.25), (0, 0.4)])  # multinomial: up to 2.6
def test_counts_of_documents_vary_like_those_of_tokens_of_different_experts(dealt, error, monkeypatch):
    """The variance of a count is hypergeometric: a document gets n of T tokens."""
    monkeypatch.setattr(load, "DEALT", dealt)
    sizes, loads = np.array([120, 240, 360]), np.array([140, 120, 110, 100, 90, 80, 80, 0])
    drawn = np.array(list(load.dealt_choices(sizes, loads, 4, 400, np.random.default_rng(0))), float)
    np.testing.assert_allclose(drawn.sum(axis=2), np.broadcast_to(sizes, (400, 3)))
    np.testing.assert_allclose(drawn.mean(axis=0), np.outer(sizes, loads) / 720, rtol=0.05, atol=0.3)
    tokens, p = sizes[:, np.newaxis] / 4, loads / 180
    expected = tokens * p * (1 - p) * (180 - tokens) / 179
    np.testing.assert_allclose(drawn.var(axis=0), expected, rtol=error, atol=0.3)


def test_a_cache_of_many_choices_does_not_overflow():
    """Every token chooses expert 0. Its 2,048 uses at k = 300 exceed 31 bits of priority."""
    experts = np.full((1, 2048, 300), -1)
    experts[..., 0] = 0
    assert hits(experts, 600, 300, frequent=True).sum() == 2047


@pytest.mark.parametrize("name", ["domain_specialisation", "standing_committee"])
def test_domains_with_few_tokens_are_named(name):
    """Nine domains have three tokens each; layer 1 dropped the tokens of all but one domain."""
    arrays = ignorant(0)
    arrays["labels"] = np.where(np.arange(1200) < 27, np.arange(1200) // 3 + 2, arrays["documents"] % 2)
    arrays["label_names"] = np.array(["code", "law", *"abcdefghi"])
    arrays["experts"][1, arrays["labels"] > 0] = -1
    (found,) = modtf.analyse_routing(arrays, name, permutations=2).found.values()
    text = (
        "Domains are left out of layers in which they have fewer than 10 tokens: a, b, c, d, e, f and 3 more."
    )
    layers = "Left out: 1 of 2 layers, in which fewer than two domains have at least 10 tokens."
    assert found.notes[-2:] == (text, layers)
    (found,) = modtf.analyse_routing(ignorant(0), name, permutations=2).found.values()
    assert not any("left out" in note.lower() for note in found.notes)


def test_documents_without_choices_exchange_no_labels():
    """Their counts are zeros. They carry a label in a file of counts, but no token."""
    counts = np.random.default_rng(0).multinomial(400, np.ones(8) / 8, size=(12, 1))
    counts[[2, 5, 8, 11]] = 0
    labels, some = np.repeat(np.arange(4), 3), counts.any(axis=(1, 2))
    of_all, of_some = (
        table("domain_specialisation", {"counts": counts[rows], "labels": labels[rows], "top_k": 1})
        for rows in (slice(None), some)
    )
    columns = ["value", "chance", "chance_low", "chance_high"]
    np.testing.assert_array_equal(of_all[columns], of_some[columns])
    assert (of_all.xs("domain_distance", level="measure")["chance_high"] < 0.1).all()


def test_the_number_of_experts_that_is_assumed_is_no_fact_about_the_router():
    logits = np.random.default_rng(0).normal(size=(400, 8))
    for top_k, words in ((None, "give --top_k=K (top_k=K)"), (1, "this router chooses one"), (2, None)):
        routing = modtf.read_routing({"activations": logits}, from_logits=True, top_k=top_k)
        found = modtf.analyse_routing(routing, ["load", "coactivation"], permutations=2)
        assert words is None or words in found.missing["coactivation"]
        assert (ONE_ASSUMED in found.found["load"].notes) == (top_k is None)


def test_long_documents_of_large_files_give_a_stretch(monkeypatch):
    monkeypatch.setattr("modtf.routing.analyses.choices.MOST_CHOICES", 4 * 600)
    arrays = ignorant(0)
    assert arrays["experts"].shape == (2, 1200, 2)
    data = read_choices(modtf.read_routing(arrays | {"documents": np.arange(1200) // 400}))
    assert np.bincount(data.documents).tolist() == [200] * 3
    assert data.notes == ("600 of 1200 tokens are used, drawn from 3 documents.",)
