"""Gives tests the module that writes simulated results."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def simulator() -> ModuleType:
    """tests/launch/simulated_results.py, which is no test and in no package."""
    path = Path(__file__).parent / "simulated_results.py"
    spec = importlib.util.spec_from_file_location("simulated_results", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module
