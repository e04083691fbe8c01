"""The Python of README.md and docs/*.md runs: the blocks of a page in order, in one namespace."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import pytest
from registering import forgotten

import modtf
from modtf.analysis.claims import CLAIMS
from modtf.analysis.figures import FIGURES
from modtf.metrics import MEASURES
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS
from modtf.routing import ANALYSES
from modtf.tasks.families import FAMILIES

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = {path.relative_to(ROOT).as_posix(): path for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")]}

LONG = ("docs/add_a_family.md", "docs/add_a_router.md", "docs/your_model.md")  # they train
# The first block of another page comes before these.
AFTER = {"docs/studies.md": "docs/add_a_router.md"}
SIZES = modtf.Evaluation(
    batches=2, batch_size=16, tokens=2_560, draws=2, tokens_per_draw=2_560, conditions=("scale2",)
)


def blocks(page: str, language: str) -> list[tuple[int, str]]:
    """The blocks of a page in one language, with the number of the line before each."""
    text = PAGES[page].read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start()) + 1, m[2]) for m in BLOCK.finditer(text) if m[1] == language]


def run(page: str, namespace: dict[str, Any], first: int | None = None) -> None:
    """Runs the Python of a page, or its `first` blocks; what fails is shown with the page's lines."""
    for line, block in blocks(page, "python")[:first]:
        exec(compile("\n" * line + block, str(PAGES[page]), "exec"), namespace)


def chosen_by_rule(task: modtf.Task) -> keras.Model:
    """The model that a reader of the README brings along."""
    length = [None][: task.is_sequence]
    inputs = keras.Input([*length, task.token_width], name="inputs")
    rule = keras.Input(length, dtype="int32", name="rule")
    activation = keras.layers.Softmax()(keras.layers.Embedding(task.num_rules, task.num_rules)(rule))
    target = keras.layers.Dense(1)(keras.layers.Concatenate()([inputs, activation]))[..., 0]
    return keras.Model({"inputs": inputs, "rule": rule}, {"target": target, "activation": activation})


@pytest.fixture
def clean() -> Iterator[None]:
    """Takes back what a page registers."""
    with forgotten(ANALYSES, CLAIMS, FAMILIES, FIGURES, MEASURES, MODELS, ROUTERS):
        yield


@pytest.fixture
def readme(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Return the namespace of the README's blocks: a reader's model, and smaller sizes."""
    train, evaluate, text = modtf.train, modtf.evaluate, PAGES["README.md"].read_text(encoding="utf-8")
    smaller = re.sub(r"modarch_rules/\w+", "modarch_rules/mlp_regression_r2_task0", text)
    (tmp_path / "README.md").write_text(smaller)
    monkeypatch.setitem(PAGES, "README.md", tmp_path / "README.md")
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "data"))

    def train_little(model: keras.Model, task: modtf.Task, steps: int, **options: Any) -> Any:
        return train(model, task, min(steps, 4), **{**options, "evaluations": 2, "evaluation": SIZES})

    def evaluate_little(model: keras.Model, task: modtf.Task, **options: Any) -> Any:
        return evaluate(model, task, **{**options, "evaluation": SIZES})

    monkeypatch.setattr(modtf, "train", train_little)
    monkeypatch.setattr(modtf, "evaluate", evaluate_little)
    return {
        "my_model": chosen_by_rule(modtf.Task("mha", search="v2", num_rules=8)),
        "matrix": [[1, 0], [0, 1]],
    }


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] * (page in LONG))
        for page in PAGES
        if page != "README.md" and blocks(page, "python")
    ],
)
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": Path(page).stem}
    if page in AFTER:
        run(AFTER[page], namespace, first=1)
    run(page, namespace)


def test_the_python_of_the_readme_runs(
    readme: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert blocks("README.md", "python")
    run("README.md", readme)


def test_the_tables_of_the_measures_are_what_the_pictures_show(tmp_path: Path) -> None:
    drawn = runpy.run_path(str(ROOT / "docs" / "scripts" / "draw_measures.py"))
    text = PAGES["docs/measure_values.md"].read_text(encoding="utf-8")
    for name, (title, matrices) in drawn["PICTURES"].items():
        assert drawn["table"](matrices) in text
        assert f"images/{name}.png" in text
        assert drawn["draw"](name, title, matrices, tmp_path).read_bytes().startswith(b"\x89PNG")
