"""docs/study.md says what its committed results say, by the statistics of today."""

import runpy
from pathlib import Path

import pytest

import modtf

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def drawn():
    return runpy.run_path(str(DOCS / "draw_study.py"))


@pytest.fixture(scope="module")
def study(drawn):
    return modtf.Study.read(drawn["RESULTS"])


def test_the_tables_are_those_of_the_results(drawn, study):
    page = (DOCS / "study.md").read_text(encoding="utf-8")
    assert drawn["costs"](study) in page
    assert drawn["verdicts"](study) in page


def test_the_page_shows_what_is_drawn(drawn, study, tmp_path):
    page = (DOCS / "study.md").read_text(encoding="utf-8")
    for path in drawn["draw"](study, tmp_path):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert f"(images/{path.name})" in page


def test_no_cell_is_missing_and_the_results_are_small(drawn, study):
    """Of what was run: kinds have R of their own."""
    assert study.missing.empty
    assert study.diverged.empty
    assert sum(path.stat().st_size for path in (DOCS / "study").iterdir()) < 3e6
