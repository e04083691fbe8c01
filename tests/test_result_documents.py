"""Pages of results say what their committed results say, by the statistics of today.

Whatever script in docs/scripts/ has `texts` is held: its tables stand in docs/data, its words and pictures in
its pages. Intervals on pages are those of docs/data.
"""

import csv
import re
import runpy
from pathlib import Path

import data
import draw_cross
import judge_analyses
import numpy as np
import pytest

import modtf
from modtf.datasets.families.mlp import Affine

DOCS = Path(__file__).parents[1] / "docs"
SCRIPTS = [path for path in sorted((DOCS / "scripts").glob("draw_*.py")) if "def texts(" in path.read_text()]
assert SCRIPTS
# of hundreds of models, up to a minute
LONG = [f"draw_{name}" for name in ("findings", "study", "misrouting", "routers")]
LONG += [f"draw_{name}" for name in ("cosine", "judged", "misrouting_cosine")]

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


NUMBER = r"([-+]?\d+(?:,\d{3})*(?:\.\d+)?)"
INTERVAL = re.compile(rf"(?<![\d.,]){NUMBER}[^()\d]{{0,60}}\((?:95% CI )?{NUMBER} to {NUMBER}")
ANSWERS = (
    "vqa",
    "sqoop",
    "corruptions",
    "measures",
    "scorecard",
    "open_questions",
    "constant_rates",
    "misrouting",
    "timing",
    "routers_results",
    "study",
    "languages",
)


def rounded(text: str) -> tuple[float, float]:
    """Return a number and half a unit of its last digit that is not a trailing zero of an integer."""
    digits = text.replace(",", "")
    decimals = len(digits.partition(".")[2])
    zeros = len(digits) - len(digits.rstrip("0")) if not decimals else 0
    return float(digits), 0.501 * 10.0 ** (zeros - decimals)


@pytest.mark.parametrize("name", ANSWERS)
def test_the_intervals_of_a_page_are_in_the_data(name):
    rows = (
        row for path in data.DATA.glob("*.csv") for row in csv.reader(path.read_text("utf-8").splitlines())
    )
    cells = (re.sub(r"\[(.*), (.*)\]", r"(\1 to \2)", cell) for row in rows for cell in row)
    known = np.array([
        [float(end.replace(",", "")) for end in ends] for cell in cells for ends in INTERVAL.findall(cell)
    ])  # fmt: skip
    found = INTERVAL.findall((DOCS / f"{name}.md").read_text("utf-8"))
    assert found
    for ends in found:
        values, within = np.transpose([rounded(end) for end in ends])
        assert (abs(known - values) <= within).all(axis=1).any(), ends


def test_a_tenth_of_wrong_modules_costs_what_the_rules_imply():
    """The closed form is that of a simulation with every module right."""
    generator, losses, errors = np.random.default_rng(0), [], []
    for seed in draw_cross.TASKS:
        rules = Affine.parameters(modtf.Task("mlp", num_rules=8, data_seed=seed))
        outputs = generator.normal(size=(40_000, 2)) @ np.stack([rules["alpha"], rules["beta"]])
        right, shift = generator.integers(8, size=40_000), generator.integers(1, 8, size=40_000)
        y, other = (np.take_along_axis(outputs, rule[:, None], 1) for rule in (right, (right + shift) % 8))
        losses.append(0.1 * abs(y - other).mean())
        errors.append(10 * ((y > 0) != (other > 0)).mean())
    assert draw_cross.forced("MLP regression") == pytest.approx(np.mean(losses), rel=0.01)
    assert draw_cross.forced("MLP classification") == pytest.approx(np.mean(errors), rel=0.01)


def test_the_list_of_tables_names_all_files():
    assert data.PAGE.read_text("utf-8") == data.list_of_files()


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:Layers 0 and 1", "ignore:.* rows have expert 0", "ignore:.* tokens repeat"
)
def test_the_pages_show_how_analyses_are_judged():
    for page, table in judge_analyses.texts().items():
        assert table in (DOCS / page).read_text("utf-8")


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
