"""Searches whose trials cost nothing."""

from pathlib import Path

import pytest
from cheap import Tune


@pytest.fixture
def tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tune:
    monkeypatch.setenv("MODTF_XLA_CACHE", "0")
    return Tune(tmp_path / "tuning")
