"""The contrastive loss by hand, and the worked example of invariance."""

import keras
import numpy as np
import pytest

from modtf.experiments.corruptions.invariance import ClassActivation, invariance_rows, invariance_scores
from modtf.experiments.corruptions.trainers import TEMPERATURE, ContrastiveLoss
from modtf.tasks.population import Population
from modtf.tasks.task import Task

# Table 3 of the paper: one unit's mean activation, by class, under ID, CO, GB, and CO then GB
GRID = np.array([
    [0.02, 0.004, 0.051, 0.09, 0.039, 0.791, 1.0, 0.016, 0.018, 0.0],
    [0.002, 0.007, 0.038, 0.089, 0.039, 0.794, 0.998, 0.015, 0.022, 0.005],
    [0.011, 0.021, 0.07, 0.144, 0.061, 0.733, 0.955, 0.043, 0.029, 0.02],
    [0.035, 0.102, 0.109, 0.126, 0.087, 0.415, 0.638, 0.078, 0.116, 0.138],
])  # fmt: skip


def test_the_worked_example_of_invariance():
    elemental, composed = invariance_scores(GRID[..., None])
    assert (elemental[0].round(3), composed[0].round(3)) == (0.955, 0.683)


def test_the_released_formula_cell_by_cell():
    """The released code normalises the rows of single corruptions by themselves, and judges the composition,
    normalised over the whole grid, against these."""
    grid = np.random.default_rng(2).uniform(0.2, 1, [4, 10])
    grid[3, 0] = 1.5  # the composition has the largest
    singles = (grid[:3] - grid[:3].min()) / (grid[:3].max() - grid[:3].min())
    composed = (grid[3] - grid.min()) / (grid.max() - grid.min())
    best = singles.sum(axis=0).argmax()
    expected = 1 - np.ptp(singles[:, best]), 1 - min(abs(row[best] - composed[best]) for row in singles)
    scores = invariance_scores(grid[..., None], "released")
    np.testing.assert_allclose(np.ravel(scores), expected, rtol=1e-12)
    assert scores[0] < invariance_scores(grid[..., None])[0]
    with pytest.raises(ValueError, match="formula='code' is not known; expected one of paper, released"):
        invariance_scores(grid[..., None], "code")


def test_invariance_of_what_a_probe_saw():
    """Rescaled units and a dead unit change nothing; classes without examples count 0."""
    rng, population, states = np.random.default_rng(0), Population.of(Task("corruptions")), {}
    for name, means in zip(("id", "co", "gb", "co_gb"), GRID, strict=True):
        probe = ClassActivation(population, 3)
        classes = np.repeat(np.arange(10), 2)[:, None]
        factor = np.tile([0.5, 1.5], 10) if name != "id" else np.ones(20)
        features = (means.repeat(2) * factor)[:, None, None] * np.array([1.0, 7.0, 0.0])
        order = rng.permutation(20)
        for part in (order[:9], order[9:]):
            probe.update_state(classes[part], features[part].astype(np.float32))
        states[name] = {v.name: np.array(v) for v in probe.variables}
    rows = invariance_rows(states)
    names = ["invariance_elemental", "invariance_composed"]
    assert list(rows) == [(name + end, "co_gb") for end in ("", "_released") for name in names]
    np.testing.assert_allclose(list(rows.values())[:2], [0.955, 0.683], atol=6e-4)
    assert invariance_rows({"iid": states["id"]}) == {}
    collapsed = {name: {**state, "largest": 0 * state["largest"]} for name, state in states.items()}
    assert list(invariance_rows(collapsed)) == list(rows)
    assert np.isnan(list(invariance_rows(collapsed).values())).all()


@pytest.mark.parametrize("denominator", ["negatives", "with_positive"])
def test_the_contrastive_loss_term_by_term(denominator):
    z = np.random.default_rng(1).standard_normal([3, 4, 5])
    unit = z / np.linalg.norm(z, axis=-1, keepdims=True)
    total = 0.0
    for i, r, s in np.ndindex(3, 4, 4):
        if r != s:
            positive = np.exp(unit[i, r] @ unit[i, s] / TEMPERATURE)
            others = [unit[j, t] for j in range(3) for t in range(4) if j != i]
            below = sum(np.exp(unit[i, r] @ other / TEMPERATURE) for other in others)
            total -= np.log(positive / (below + positive * (denominator == "with_positive")))
    loss = ContrastiveLoss(0.5, denominator)(np.zeros([3, 4]), z.astype(np.float32))
    np.testing.assert_allclose(float(loss), 0.5 * total / 12, rtol=1e-4)


def test_what_is_refused():
    with pytest.raises(ValueError, match="strength=-1 is not valid"):
        ContrastiveLoss(-1)
    with pytest.raises(
        ValueError, match="denominator='all' is not known; expected one of with_positive, neg"
    ):
        ContrastiveLoss(1.0, "all")
    assert isinstance(ContrastiveLoss(1.0), keras.losses.Loss)
