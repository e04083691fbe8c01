"""Routers against groups of permuted sub-tasks: answers that are known."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import modtf
from modtf.analysis.claims import CLAIMS
from modtf.experiments.vqa.claims import against_chance, routed
from modtf.families.vqa_questions import QUESTIONS
from modtf.metrics import alignment, inverse_mutual_information
from modtf.results import Activations

GROUPS = QUESTIONS["attribute"].group_of  # of 10, 5, 3 and 3 sub-tasks
MEASURES = (alignment, inverse_mutual_information)
TASKS = 3


def of(matrix, measure, permutations=200):
    return against_chance([[matrix]] * TASKS, GROUPS, measure, permutations)


@pytest.mark.parametrize("measure", MEASURES)
def test_groups_that_are_found(measure):
    found = of(np.eye(4)[list(GROUPS)], measure)
    np.testing.assert_allclose(found.tasks, 0, atol=1e-12)
    assert found.p == 1 / 201  # the least there is
    assert found.interval[0] > 0.3


@pytest.mark.parametrize("measure", MEASURES)
def test_a_router_that_tells_nothing(measure):
    found = of(np.full([21, 4], 0.25), measure)
    assert found.p == 1
    np.testing.assert_allclose(found.interval, found.tasks.mean())


def test_p_is_exact_where_groups_are_nothing_to_a_router():
    generator = np.random.RandomState(0)
    other = [np.eye(4)[generator.permutation(GROUPS)] for _ in range(200)]
    p = [against_chance([[matrix]], GROUPS, inverse_mutual_information, 19).p for matrix in other]
    for share in (0.1, 0.5):  # two standard deviations of 200
        assert np.mean(np.array(p) <= share) < share + 2 * np.sqrt(share * (1 - share) / 200)


def test_tasks_are_permuted_by_themselves():
    found = of(np.eye(4)[np.arange(21) % 4], alignment)
    assert found.permuted.shape == (200, TASKS)
    assert (found.permuted.std(axis=1) > 0).mean() > 0.9
    assert found.p > 0.05
    low, high = found.interval
    assert low < found.permuted.mean() < high


def test_a_study():
    """Matrices of a router at the encoder: of two tasks the groups', of a third a model that diverged."""
    matrix = np.eye(4)[list(GROUPS)]
    matrices = np.stack([matrix, matrix, np.full_like(matrix, np.nan)])
    seeds = np.arange(3)
    cell = Activations({}, matrices, matrices, matrices[None], np.array([1]), seeds, seeds * 0, "encoder")
    definition = SimpleNamespace(task=modtf.Task("vqa_mnist", question="attribute"))
    study: Any = SimpleNamespace(
        cells=[SimpleNamespace(definition=definition)],
        activations=lambda place, variant: [cell] if place == "encoder" else [],
        checkpoint="tail",
        level=0.95,
    )
    tasks, groups = routed(study)
    assert (list(tasks), groups) == ([0, 1], list(GROUPS))
    assert routed(study, "module") == ({}, list(GROUPS))  # one for all there
    (evidence,) = CLAIMS["the_router_finds_groups"].evidence(study)
    assert evidence.num_tasks == 2
    assert evidence.value > 0.3
    definition.task = modtf.Task("vqa_mnist", question="comparison")  # four leaves, in no groups
    assert routed(study) == ({}, [])
    assert not list(CLAIMS["the_router_finds_groups"].evidence(study))
