"""Simulated studies that the tests of the analysis share."""

from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure
from simulated_results import World, results_of, simulate, study_of

from modtf.analysis import Study
from modtf.analysis.figures import Picture
from modtf.results import VARIANTS


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mlp, both settings, R in {2, 8, 32}, 3 tasks x 2 seeds, four variants."""
    return simulate(tmp_path_factory.mktemp("study"), num_evaluations=3)


@pytest.fixture(scope="session")
def small_study(small_folder: Path) -> Study:
    return Study.read(small_folder)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Two kinds of regression, two R and widths, two tasks x two seeds."""
    sizes = {"rules": (2, 8), "widths": (32, 64), "data_seeds": range(2), "seeds": range(2)}
    kinds = [("mlp", {}), ("mha", {"search": "v2"})]
    return study_of(tmp_path_factory.mktemp("whole"), kinds=kinds, num_evaluations=2, **sizes)


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Variants of a user, with options, one of them diverging; classification."""
    variants = [*VARIANTS, ("modular", {"modules": 3}), "sparse"]
    sizes = {"settings": ["classification"], "rules": [4], "data_seeds": range(2), "num_evaluations": 2}
    world = World(diverged=(("sparse", 0, 0),))
    return study_of(tmp_path_factory.mktemp("foreign"), variants=variants, world=world, **sizes)


@pytest.fixture(scope="session")
def routers() -> Study:
    """One kind, two R and widths, four tasks x two seeds; `switch` diverges once."""
    variants = ["monolithic", "modular", "gt_modular", ("modular", {"modules": 3}), "switch"]
    sizes = {"rules": (2, 8), "widths": (32, 64), "data_seeds": range(4), "checkpoints": ["tail"]}
    return Study(results_of(World(diverged=(("switch", 0, 0),)), variants=variants, **sizes))


@pytest.fixture
def undrawn(monkeypatch):
    """Return pictures without panels, for tests of their tables and notes."""

    def blank(mark, table, name, title, note, *parts, **named):
        return Picture(name, title, note, Figure(), table)

    for module in ("averages", "comparisons", "measures_judged"):
        monkeypatch.setattr(f"modtf.analysis.figures.{module}.panels", blank)
    blank_maps = lambda tables, *drawn: blank(None, pd.concat(tables), *drawn)  # noqa: E731
    monkeypatch.setattr("modtf.analysis.figures.activation.heat_maps", blank_maps)
