"""The information of each factor about experts beyond the others, where the answer is known."""

import numpy as np
import pytest

from modtf.routing.measuring import factors as module
from modtf.routing.measuring import measure_factors
from modtf.routing.measuring.tokens import drawn_tokens

TOKENS = 4000
GENERATOR = np.random.default_rng(0)
FACTORS = {
    "token": GENERATOR.integers(40, size=TOKENS),
    "position": np.arange(TOKENS) % 8,
    "domain": GENERATOR.integers(4, size=200)[np.arange(TOKENS) // 20],
}
DOCUMENTS = np.arange(TOKENS) // 20


def found(experts, num_experts=4, factors=None, documents=DOCUMENTS, **options):
    factors = factors or FACTORS
    rows = measure_factors(factors, experts=experts, num_experts=num_experts, documents=documents, **options)
    return {row.factor: row for row in rows}


@pytest.mark.parametrize("name", FACTORS)
def test_what_decides_tells_all_and_the_others_nothing(name):
    for row in found(FACTORS[name][:, np.newaxis] % 4).values():
        expected = float(row.factor == name)
        assert row.marginal == pytest.approx(expected, abs=0.03)
        assert row.beyond == pytest.approx(expected, abs=0.03)
        assert row.marginal_chance < 0.05


def test_either_or_is_told_by_both_and_by_none_alone():
    rows = found((FACTORS["token"] % 2 ^ FACTORS["position"] % 2)[:, np.newaxis], 2)
    assert [rows[name].marginal for name in FACTORS] == pytest.approx([0, 0, 0], abs=0.02)
    assert [rows[name].beyond for name in FACTORS] == pytest.approx([1, 1, 0], abs=0.02)


def test_what_another_factor_explains_is_not_beyond_it():
    """Domains have separate tokens and experts follow tokens: domain carries information only alone."""
    token = 10 * FACTORS["domain"] + GENERATOR.integers(10, size=TOKENS)
    factors = {"token": token, "position": FACTORS["position"], "domain": FACTORS["domain"]}
    rows = found((token % 20 // 5)[:, np.newaxis], factors=factors)
    assert rows["domain"].marginal > 0.2
    assert rows["domain"].beyond == pytest.approx(0, abs=0.01)
    assert rows["token"].beyond > 0.3


def test_two_choices_of_a_token_tell_as_much_as_one():
    chosen = np.stack([FACTORS["token"] % 4, 4 + FACTORS["token"] % 4], axis=1)
    assert found(chosen, 8)["token"].marginal == pytest.approx(1, abs=1e-9)
    gates = np.eye(8)[chosen].sum(axis=1) / 2
    rows = measure_factors(FACTORS, gates, documents=DOCUMENTS, top_k=2)
    assert rows == list(found(chosen, 8).values())


@pytest.mark.parametrize("seed", range(5))
def test_what_is_random_tells_nothing(seed):
    """With 2,000 tokens, 160 different ones in 32 strata, the uncorrected information is far above 0."""
    generator = np.random.default_rng(seed)
    factors = {"token": generator.integers(160, size=2000), "position": generator.integers(32, size=2000)}
    for row in found(generator.integers(8, size=(2000, 1)), 8, factors, None).values():
        assert abs(row.marginal) < 0.02
        assert np.isnan(row.beyond) or abs(row.beyond) < 0.2


@pytest.mark.slow
def test_documents_of_a_taste_do_not_make_domains_look_known():
    """Ten documents have their own experts and random domains, so the domain carries no information."""
    inside: list[bool] = []
    outside: list[bool] = []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        documents = np.arange(2000) // 200
        taste = generator.dirichlet(np.ones(4), size=10)
        experts = np.array([generator.choice(4, p=taste[number]) for number in documents])[:, np.newaxis]
        factors = {
            "domain": generator.permutation(10)[documents] % 2,
            "token": generator.integers(4, size=2000),
        }
        for of, names in ((documents, inside), (None, outside)):
            row = found(experts, 4, factors, of, seed=seed)["domain"]
            names.append(row.beyond > row.beyond_chance)
    assert sum(inside) <= 4
    assert sum(outside) >= 18


def in_runs(generator, sizes, mean, number):
    """Return random values of documents of these sizes, in runs of this mean length."""
    new = generator.random(sizes.sum()) < 1 / mean
    new[np.cumsum(sizes) - sizes] = True
    return generator.integers(number, size=new.sum())[np.cumsum(new) - 1]


def documents_of_a_kind(kind, seed):
    """Return factors, experts that do not depend on them, and documents of unequal length."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(10, 91, size=40)
    documents = np.repeat(np.arange(40), sizes)

    def by_document(number):
        shares = generator.dirichlet(np.full(number, 0.5), size=40)[documents].cumsum(axis=1)
        return (generator.random((len(documents), 1)) > shares).sum(axis=1).clip(0, number - 1)

    position = np.concatenate([np.arange(size) // 10 for size in sizes])
    turns, domain = in_runs(generator, sizes, 10, 3), generator.integers(3, size=40)[documents]
    mixed = np.where((generator.random(40) < 0.2)[documents], turns, domain)
    other = generator.integers(10, size=len(documents))
    experts = in_runs(generator, sizes, 10, 4)
    return {
        "turns": ({"it": turns, "other": other}, experts),
        "positions": ({"it": position, "other": other}, experts),
        "domains, some in turns": ({"it": mixed, "other": other}, by_document(4)),
        "topics of tokens": ({"it": by_document(30), "other": position}, by_document(4)),
        "turns that tokens tell": ({"it": turns, "other": turns * 4 + other % 4}, experts),
    }[kind], documents


KINDS = ("turns", "positions", "domains, some in turns", "topics of tokens", "turns that tokens tell")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_runs_and_topics_do_not_look_like_information(kind):
    """With tokens permuted alone, between 33% and 100% of the values alone were beyond chance."""
    beyond: dict[tuple[str, str], list[bool]] = {}
    for seed in range(30):
        (factors, experts), documents = documents_of_a_kind(kind, seed)
        for name, row in found(experts[:, np.newaxis], 4, factors, documents, seed=seed).items():
            beyond.setdefault((name, "marginal"), []).append(row.marginal > row.marginal_chance)
            beyond.setdefault((name, "beyond"), []).append(row.beyond > row.beyond_chance)
    assert all(sum(hits) <= 7 for hits in beyond.values()), beyond  # of 30


@pytest.mark.parametrize("kind", KINDS[:3])
def test_what_experts_follow_in_runs_is_found(kind):
    """Experts follow the factor in 4 of 10 tokens, and are random in the others."""
    for seed in range(5):
        (factors, _), documents = documents_of_a_kind(kind, seed)
        generator = np.random.default_rng(seed)
        follows = generator.random(len(documents)) < 0.4
        experts = np.where(follows, factors["it"] % 4, generator.integers(4, size=len(documents)))
        row = found(experts[:, np.newaxis], 4, factors, documents)["it"]
        assert row.marginal > 2 * row.marginal_chance
        assert row.beyond > 2 * row.beyond_chance


@pytest.mark.parametrize("factor", [np.zeros(400, int), np.arange(400) // 100])
def test_factors_that_permutation_cannot_change_tell_nothing(factor):
    """One value everywhere; one of its own for each document: every exchange only renames them."""
    experts = np.random.default_rng(0).integers(4, size=(400, 1))
    factors = {"it": factor, "other": np.arange(400) % 3}
    row = found(experts, 4, factors, np.arange(400) // 100)["it"]
    assert row.marginal <= row.marginal_chance
    assert row.beyond <= row.beyond_chance


def test_no_more_tokens_are_looked_at_than_are_needed(monkeypatch):
    monkeypatch.setattr(module, "MOST_TOKENS", 1000)
    some = drawn_tokens(DOCUMENTS, 1000, seed=0)
    assert len(some) == 1000
    assert (np.bincount(DOCUMENTS[some])[np.unique(DOCUMENTS[some])] == 20).all()
    assert found(FACTORS["token"][:, np.newaxis] % 4)["token"].marginal == pytest.approx(1)


@pytest.mark.parametrize(("number", "most", "each"), [(100, 3200, 100), (3, 3200, 1066), (3, 90_000, 30_000)])
def test_long_documents_give_a_stretch_of_their_tokens(number, most, each):
    """Documents are interleaved, 32 or all of them are drawn, and some stretches begin late."""
    documents = np.arange(number * 30_000) % number
    some = drawn_tokens(documents, most, seed=0)
    assert (np.diff(some) > 0).all()
    kept, sizes = np.unique(documents[some], return_counts=True)
    assert sizes.tolist() == [each] * min(number, 32)
    places = [some[documents[some] == one] for one in kept]
    assert all((np.diff(one) == number).all() for one in places)
    assert (each == 30_000) == all(one[0] < number for one in places)


def test_bad_input():
    with pytest.raises(ValueError, match="factors is token; expected a dict of at least two"):
        measure_factors({"token": [0, 1]}, experts=[[0], [1]], num_experts=2)
    with pytest.raises(ValueError, match=r"token have shape \(3,\)"):
        measure_factors({"token": [0, 1, 2], "x": [0, 1]}, experts=[[0], [1]], num_experts=2)


def test_choices_of_weight_0_and_placeholders_are_left_out():
    """Capacities and masks leave ids of weight 0; formats fill the places of dense layers with one id."""
    experts = np.stack([FACTORS["token"] % 4, 4 + np.zeros(len(DOCUMENTS), int)], axis=1)
    weights = np.tile([1.0, 0.0], (2, len(DOCUMENTS), 1))
    both = np.stack([np.zeros_like(experts), experts])
    weights[0, 0] = 0
    weights[0, 1:] = 0
    rows = measure_factors(FACTORS, experts=both, weights=weights, num_experts=5)
    assert {row.layer for row in rows} == {1}
    assert next(row.marginal for row in rows if row.factor == "token") == pytest.approx(1)


def test_layers_and_progress():
    experts = np.stack([FACTORS[name] % 4 for name in ("token", "position")])[..., np.newaxis]
    seen = []

    def progress(layers):
        seen.extend(layers)
        return layers

    rows = measure_factors(FACTORS, experts=experts, num_experts=4, progress=progress)
    assert len(seen) == 2
    told = {(row.layer, row.factor) for row in rows if row.marginal > 0.9}
    assert told == {(0, "token"), (1, "position")}
