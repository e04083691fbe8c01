"""Searches whose trials cost nothing."""

from pathlib import Path

import pytest
from cheap import Tune


@pytest.fixture
def tune(tmp_path: Path) -> Tune:
    return Tune(tmp_path / "tuning")
