"""The chance level: permuted labels, exactly or in the limit."""

import numpy as np
import pytest
from activation_tokens import INDEPENDENT, SPECIALISED, draw_tokens, soften

from modtf.metrics import ActivationAccumulator, inverse_mutual_information, measure_activations, measure_all
from modtf.metrics.tokens.chance import chance_matrices

MEASURED = ("alignment", "inverse_mutual_information", "adaptation")


def sums_of(gates, labels, top_k=None):
    accumulator = ActivationAccumulator(top_k=top_k)
    accumulator.update(gates, labels)
    assert accumulator.sums is not None
    return accumulator.sums


@pytest.mark.parametrize("A", [SPECIALISED, INDEPENDENT], ids=["specialised", "independent"])
@pytest.mark.parametrize("top_k", [None, 2])
def test_the_limit_is_that_of_permutations(A, top_k):
    """Same mean and same spread of every entry, and of the measures; and permutations know nothing of A."""
    gates, labels = draw_tokens(A, 3000, seed=0)
    sums = sums_of(soften(gates, seed=1), labels, top_k)
    ids = np.arange(3)
    exact, limit = (chance_matrices(sums, 0, ids, top_k, 300, seed=0, exact=how) for how in (True, False))
    np.testing.assert_allclose(exact.sum(axis=-1), 1, atol=1e-6)
    np.testing.assert_allclose(exact.mean(axis=1), limit.mean(axis=1), atol=0.003)
    np.testing.assert_allclose(exact.std(axis=1), limit.std(axis=1), rtol=0.2)
    probs = np.bincount(labels) / 3000
    for by in range(2):
        use = probs @ exact[by]
        np.testing.assert_allclose(use, np.broadcast_to(use[0], use.shape), atol=1e-6)
        np.testing.assert_allclose(probs @ limit[by], use, atol=1e-6)
        found = [[measure_all(m, rule_probs=probs) for m in matrices[by]] for matrices in (exact, limit)]
        for name in MEASURED:
            of_exact, of_limit = (np.array([values[name] for values in some]) for some in found)
            spread = of_exact.std()
            assert abs(of_exact.mean() - of_limit.mean()) < 0.35 * spread
            assert of_limit.std() == pytest.approx(spread, rel=0.25)


@pytest.mark.parametrize("top_k", [None, 2])
def test_the_limit_holds_where_cells_have_few_tokens(top_k):
    """Two tokens a cell on average. A normal limit, cut off at 0, would be off by a third."""
    generator = np.random.default_rng(0)
    labels = generator.choice(20, size=1500, p=generator.dirichlet(np.full(20, 2.0)))
    logits = generator.normal(size=(1500, 40)) + np.log(generator.dirichlet(np.ones(40)))
    accumulator = ActivationAccumulator(from_logits=True, top_k=top_k)
    accumulator.update(3.0 * logits, labels)
    sums = accumulator.sums
    assert sums is not None
    ids = np.flatnonzero(sums.counts.sum(axis=0))
    probs = sums.counts.sum(axis=0)[ids] / 1500
    for by in range(2):
        information = []
        for how in (True, False):
            matrices = chance_matrices(sums, 0, ids, top_k, 40, seed=0, exact=how)[by]
            information.append([1 - inverse_mutual_information(m, probs) for m in matrices])
            np.testing.assert_allclose(probs @ matrices, np.tile(probs @ matrices[0], (40, 1)), atol=5e-3)
        exact, limit = np.array(information)
        assert limit.mean() == pytest.approx(exact.mean(), rel=0.02 if by else 0.15)
        assert limit.std() == pytest.approx(exact.std(), rel=0.6)


def test_correlations_between_labels_and_modules():
    """The limit has the covariance of permutations, off the diagonal too."""
    gates, labels = draw_tokens(SPECIALISED, 1000, seed=0)
    sums = sums_of(soften(gates, seed=2), labels)
    exact, limit = (
        np.cov(chance_matrices(sums, 0, np.arange(3), None, 4000, seed=1, exact=how)[0].reshape(4000, 12).T)
        for how in (True, False)
    )
    np.testing.assert_allclose(limit, exact, atol=0.12 * exact.max())


def test_many_tokens_are_not_kept(monkeypatch):
    gates, labels = draw_tokens(SPECIALISED, 3000, seed=0)
    sums = sums_of(gates, labels)
    assert sums.mass is not None
    monkeypatch.setattr("modtf.metrics.tokens.sums.KEPT", 1000)
    dropped = sums_of(gates, labels)
    assert dropped.mass is None
    limit = chance_matrices(sums, 0, np.arange(3), None, 9, seed=0, exact=False)
    np.testing.assert_allclose(chance_matrices(dropped, 0, np.arange(3), None, 9, seed=0), limit)


@pytest.mark.parametrize("kept", [2**22, 0])
def test_the_order_of_tokens_does_not_matter(monkeypatch, kept):
    """Data sorted by label are permuted like any other."""
    monkeypatch.setattr("modtf.metrics.tokens.sums.KEPT", kept)
    gates, labels = draw_tokens(SPECIALISED, 3000, seed=0)
    order = np.argsort(labels, kind="stable")
    found, expected = (
        measure_activations(g, c, permutations=100)[0].mass.values["inverse_mutual_information"]
        for g, c in ((gates[order], labels[order]), (gates, labels))
    )
    assert found.value == pytest.approx(expected.value)
    assert 1 - found.chance == pytest.approx(1 - expected.chance, rel=0.3)
    assert found.chance > 0.99


def test_module_use_stays_what_it_was():
    gates, labels = draw_tokens(SPECIALISED, 1000, seed=3)
    (layer,) = measure_activations(gates, labels, permutations=5)
    for name in ("collapse_avg", "collapse_worst", "load_variation"):
        estimate = layer.hard.values[name]
        assert estimate.chance == pytest.approx(estimate.value, abs=1e-6)
        assert estimate.chance_high - estimate.chance_low < 1e-6


def test_no_permutations():
    gates, labels = draw_tokens(SPECIALISED, 300, seed=0)
    (layer,) = measure_activations(gates, labels, permutations=0)
    alignment = layer.mass.values["alignment"]
    assert np.isnan(alignment.chance)
    assert alignment.low < alignment.value < alignment.high
    assert np.isnan(layer.mass.values["adjusted_mutual_information"].value)
    assert np.isnan(layer.mass.top_label_chance).all()


def test_the_seed_decides():
    gates, labels = draw_tokens(SPECIALISED, 300, seed=0)
    first, again, other = (measure_activations(gates, labels, permutations=5, seed=s)[0] for s in (0, 0, 1))
    assert first.mass.values == again.mass.values
    assert first.mass.values["alignment"].chance != other.mass.values["alignment"].chance
