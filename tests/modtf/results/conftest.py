"""Gives tests the module that writes simulated results."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def simulator() -> ModuleType:
    """tests/launch/simulated_results.py, which is no test and in no package."""
    path = Path(__file__).parents[2] / "launch" / "simulated_results.py"
    spec = importlib.util.spec_from_file_location("simulated_results", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def small_study(simulator: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mlp, both settings, R in {2, 8, 32}, 3 tasks x 2 seeds, four variants."""
    return simulator.simulate(tmp_path_factory.mktemp("study"), num_evaluations=3)
