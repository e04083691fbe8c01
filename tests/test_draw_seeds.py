"""The study `seeds`, and the rank agreement of its table where the answer is known."""

import draw_seeds
import numpy as np
import pandas as pd
import pytest
import seeds

TASKS, SEEDS = 8, 5


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def ranks(rng):
    return rng.permuted(np.tile(np.arange(SEEDS), (TASKS, 1)), axis=1).astype(float)


def of_tasks(badness, loss):
    """Return tasks that differ far more than their seeds do."""
    return {task: np.stack([badness[task], 10.0**task * (1 + 0.01 * loss[task])]) for task in range(TASKS)}


def test_seeds_are_ranked_within_a_task(ranks):
    found = draw_seeds.agreement(of_tasks(ranks, ranks))
    assert (found.value, found.num_tasks) == (1.0, TASKS)
    assert draw_seeds.agreement(of_tasks(ranks, -ranks)).value == -1.0
    assert draw_seeds.chance(of_tasks(ranks, -ranks), draws=999) == 0.001


def test_chance_is_uniform_without_a_relation(rng, ranks):
    """The p of unrelated rankings is below a tenth in a tenth of them; a binomial interval of 99.9%."""
    p = [draw_seeds.chance(of_tasks(ranks, rng.permuted(ranks, axis=1)), draws=99) for _ in range(200)]
    assert 7 <= np.sum(np.array(p) <= 0.1) <= 36


def test_everything_is_equal_but_the_seed():
    cells = seeds.cells()
    assert sum(len(cell.members) for cell in cells) == 175
    for cell in cells:
        assert set(pd.DataFrame(cell.members).groupby(0).size()) == {SEEDS}
    assert {cell.protocol.training.schedule for cell in cells} == {"cosine"}
