"""Coverage of the intervals, on routers with known measures."""

from functools import partial

import numpy as np
import pytest
from activation_tokens import SPECIALISED, draw_documents, draw_tokens

from modtf import metrics
from modtf.routing.measuring import ActivationAccumulator, measure_activations
from modtf.routing.measuring.estimates import estimates, jackknife

NAMES = ("alignment", "collapse_worst", "inverse_mutual_information", "top_label_share")
SMOOTH = {name: getattr(metrics, name) for name in NAMES}


def measure_smooth(matrices, probs):
    return {name: np.array([f(A, rule_probs=probs) for A in matrices]) for name, f in SMOOTH.items()}


def coverage(draw, num_samples):
    """Return how often the interval of each measure holds the true value, for fixed labels."""
    hits = []
    for seed in range(num_samples):
        accumulator = ActivationAccumulator()
        accumulator.update(*draw(seed))
        sums = accumulator.tables[0].groups[0]
        probs = accumulator.tokens.counts / accumulator.tokens.counts.sum()
        measure = partial(measure_smooth, probs=probs)
        found, _ = estimates(measure, sums, sums.sum(axis=-1), np.zeros((0, 3, 4)), 0.95)
        truth = measure(SPECIALISED[np.newaxis])
        hits.append([found[name].low <= truth[name][0] <= found[name].high for name in SMOOTH])
    return dict(zip(SMOOTH, np.mean(hits, axis=0), strict=True))


@pytest.mark.slow
def test_independent_tokens():
    """95% of 200: fewer than 178 would come up once in a thousand times."""
    found = coverage(lambda seed: draw_tokens(SPECIALISED, 2000, seed), 200)
    assert min(found.values()) >= 178 / 200, found


@pytest.mark.slow
def test_tokens_of_a_document_are_alike():
    """If the tokens are treated as independent, intervals miss the true value half of the time."""
    found = coverage(lambda seed: draw_documents(SPECIALISED, 400, 20, seed), 100)
    assert min(found.values()) >= 86 / 100, found

    def shuffled(seed):
        gates, labels, _ = draw_documents(SPECIALISED, 400, 20, seed)
        order = np.random.default_rng(seed).permutation(len(labels))
        return gates[order], labels[order]

    found = coverage(shuffled, 100)
    assert max(found.values()) < 86 / 100, found


def width(gates, labels, **options):
    """Return the width of alignment's interval."""
    (layer,) = measure_activations(gates, labels, permutations=0, **options)
    found = layer.mass.values["alignment"]
    return found.high - found.low


def test_without_documents_tokens_would_be_taken_as_independent():
    """The interval with documents is wider than one that ignores them."""
    made = draw_documents(SPECIALISED, 300, 20, seed=0)
    order = np.random.default_rng(0).permutation(len(made[1]))  # no document has neighbouring tokens any more
    gates, labels, documents = (array[order] for array in made)
    assert width(gates, labels, documents=documents) > 1.5 * width(gates, labels)


def test_neighbours_stay_together_without_documents():
    gates, labels, _ = draw_documents(SPECIALISED, 3000, 20, seed=0)
    order = np.random.default_rng(0).permutation(len(labels))
    assert width(gates, labels) > 1.5 * width(gates[order], labels[order])


def test_more_confidence_is_wider():
    gates, labels = draw_tokens(SPECIALISED, 1000, seed=0)
    widths = [width(gates, labels, confidence=confidence) for confidence in (0.5, 0.95, 0.99)]
    assert widths == sorted(widths)
    assert widths[0] < 0.5 * widths[2]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_a_perfect_router_has_no_width(order):
    labels = np.arange(90) % 3
    (layer,) = measure_activations(np.eye(3)[order][labels], labels, permutations=0)
    for name in ("alignment", "inverse_mutual_information", "collapse_worst"):
        estimate = layer.hard.values[name]
        assert estimate.low == estimate.value == estimate.high == 0


def test_jackknife_of_a_mean_is_the_textbook_interval():
    """For equal groups it is mean +- t s / sqrt(n); t(0.975; 3) = 3.182."""
    shares = np.array([0.2, 0.3, 0.35, 0.55])
    sums = 10 * np.stack([shares, 1 - shares], axis=1)[:, np.newaxis]
    found = jackknife(sums, np.full((4, 1), 10), lambda A: {"mean": A[:, 0, 0]}, 0.95)
    centre, half = found["mean"]
    assert centre == pytest.approx(0.35)
    assert half == pytest.approx(3.18245 * shares.std(ddof=1) / 2, rel=1e-5)
