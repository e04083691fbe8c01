"""A simulated study that the tests of the analysis share."""

from pathlib import Path

import pytest
from simulated_results import simulate


@pytest.fixture(scope="session")
def small_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mlp, both settings, R in {2, 8, 32}, 3 tasks x 2 seeds, four variants."""
    return simulate(tmp_path_factory.mktemp("study"), num_evaluations=3)
