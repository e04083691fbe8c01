"""Simulated studies that the tests of the analysis share."""

from pathlib import Path

import pytest
from simulated_results import World, simulate

from modtf.analysis import Study
from modtf.results import VARIANTS


@pytest.fixture(scope="session")
def small_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mlp, both settings, R in {2, 8, 32}, 3 tasks x 2 seeds, four variants."""
    return simulate(tmp_path_factory.mktemp("study"), num_evaluations=3)


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Variants of a user, with options, one of them diverging; classification."""
    variants = [*VARIANTS, ("modular", {"modules": 3}), "sparse"]
    world = World(diverged=(("sparse", 0, 0),))
    out = tmp_path_factory.mktemp("foreign")
    sizes = {"settings": ["classification"], "rules": [4], "data_seeds": range(2)}
    return Study.read(simulate(out, variants=variants, world=world, num_evaluations=2, **sizes))
