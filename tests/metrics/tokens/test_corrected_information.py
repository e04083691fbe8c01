"""Mutual information less what noise looks like."""

import numpy as np
import pytest
from activation_tokens import INDEPENDENT, draw_tokens, soften

from modtf.metrics import measure_activations


@pytest.mark.parametrize("kept", [2**22, 0], ids=["permuted", "limit"])
@pytest.mark.parametrize("by", [0, 1], ids=["mass", "hard"])
def test_corrected_mutual_information_of_independent_tokens_is_zero(monkeypatch, by, kept):
    """On average; the uncorrected one never is."""
    monkeypatch.setattr("modtf.metrics.tokens.sums.KEPT", kept)
    corrected, told, covered = [], [], []
    for seed in range(40):
        gates, labels = draw_tokens(INDEPENDENT, 200, seed)
        (layer,) = measure_activations(
            soften(gates, seed)[0],
            labels,
            permutations=20,
            num_groups=5,
            groups=["specialisation"],
            seed=seed,
        )
        values = layer.views[by].values
        estimate = values["adjusted_mutual_information"]
        corrected.append(estimate.value)
        told.append(1 - values["inverse_mutual_information"].value)
        covered.append(estimate.chance_low <= estimate.value <= estimate.chance_high)
        assert estimate.chance == pytest.approx(0, abs=1e-12)
        assert estimate.low <= estimate.value <= estimate.high
    error = np.std(corrected) / np.sqrt(len(corrected))
    assert abs(np.mean(corrected)) < 3 * error
    assert np.mean(told) > 4 * error
    assert np.mean(covered) > 0.75


def test_corrected_mutual_information_of_perfect_modules_is_one():
    labels = np.random.default_rng(0).integers(4, size=60)
    (layer,) = measure_activations(np.eye(4)[labels], labels, permutations=10)
    assert layer.mass.values["adjusted_mutual_information"].value == pytest.approx(1)


def test_one_token_of_each_label_has_no_corrected_information():
    """Whatever the modules do, they tell all there is."""
    (layer,) = measure_activations(np.eye(3), [0, 1, 2], permutations=10)
    assert layer.hard.values["inverse_mutual_information"].chance == pytest.approx(0)
    assert np.isnan(layer.hard.values["adjusted_mutual_information"].value)
