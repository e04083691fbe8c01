"""Pages of results say what their committed results say, by the statistics of today.

Whatever script in docs/scripts/ has `texts` is held: its tables stand in docs/data, its words and pictures in
its pages. Intervals on pages are those of docs/data.
"""

import re
import runpy
from pathlib import Path

import data
import pytest

DOCS = Path(__file__).parents[1] / "docs"
SCRIPTS = [path for path in sorted((DOCS / "scripts").glob("draw_*.py")) if "def texts(" in path.read_text()]
assert SCRIPTS
# of hundreds of models, up to a minute
LONG = ("draw_findings", "draw_study", "draw_misrouting", "draw_routers")

MARKED = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in LONG)) for path in SCRIPTS
]


@pytest.fixture(scope="module", params=MARKED)
def drawn(request):
    return runpy.run_path(str(request.param))


@pytest.fixture(scope="module")
def study(drawn):
    return drawn["read"]()


def test_the_tables_are_those_of_the_results(drawn, study, request):
    texts = drawn["texts"](study)
    for page, made in texts.items():
        words = [text for text in made if not data.tables_of(text)]
        assert all(text in (DOCS / page).read_text("utf-8") for text in words)
    script = request.node.callspec.params["drawn"].stem
    for name, table in data.files_of(script, texts).items():
        assert (DOCS / "data" / name).read_text("utf-8") == table.to_csv(), name


def test_the_list_of_tables_names_all_files():
    assert data.PAGE.read_text("utf-8") == data.list_of_files()


@pytest.mark.slow
def test_the_pages_show_what_is_drawn(drawn, study, tmp_path):
    pages = [(DOCS / name).read_text(encoding="utf-8") for name in drawn["texts"](study)]
    shown = {name for page in pages for name in re.findall(r"\(images/([a-z_0-9]+\.png)\)", page)}
    paths = drawn["draw"](study, tmp_path) if "draw" in drawn else []
    assert {path.name for path in paths} <= shown
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


def test_no_cell_is_missing_and_no_model_diverged(study):
    studies = study if isinstance(study, tuple) else (study,)
    for part in (part for each in studies for part in each.by_kind):
        assert len(part.results)
        assert part.missing.empty
        assert part.diverged.empty


def test_results_are_small():
    sizes = [path.stat().st_size for path in (DOCS / "study").iterdir()]
    assert sum(sizes) < 20e6
    assert max(sizes) < 3e6
