"""The floors of modtf: what may import what, and who may know the names of the published families."""

import re
import shutil
from pathlib import Path

import pytest
from processes import ROOT, Done, python

FOLDERS = ("modtf", "datasets", "models", "metrics", "launch")

# The families and architectures themselves, the names of published TFDS configurations, and what tries them.
MAY_NAME_FAMILIES = (
    "modtf/tasks/families/", "datasets/families/", "datasets/modarch_rules/", "models/architectures/",
    "modtf/experiments/", "modtf/studies/", "tests/",
)  # fmt: skip
FAMILY_NAME = re.compile(r"['\"](mlp|mha|rnn)['\"]")


def lint_imports(root: Path) -> Done:
    """import-linter with the contracts of pyproject.toml, on the tree in `root`."""
    command = "from importlinter.cli import lint_imports_command as main; main()"
    return python("-c", command, "--no-cache", cwd=root, env={"PYTHONPATH": str(root)})


@pytest.fixture
def copied_tree(tmp_path: Path) -> Path:
    """Copy the sources, for a test to spoil."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


WRONG = {
    "modtf/base/checks.py": "import modtf.launch.cli",
    "metrics/load.py": "def f():\n    from modtf.models import build",
    "models/base.py": "import modtf.datasets.streaming",  # a neighbour
    "modtf/results/load.py": "import tensorflow",
}


@pytest.mark.parametrize(
    "wrong", [WRONG, {"modtf/attic.py": "import modtf.base.checks"}], ids=["imports", "floor"]
)
def test_the_contracts_see_what_goes_wrong(copied_tree: Path, wrong: dict[str, str]) -> None:
    """Imports that go up or sideways, and a part without a floor."""
    for file, line in wrong.items():
        path = copied_tree / file
        path.write_text((path.read_text() if path.exists() else "") + f"\n{line}\n")
    done = lint_imports(copied_tree)
    assert done.returncode == 1, done.stdout
    for file in wrong:
        module = f"modtf.{file.removeprefix('modtf/').removesuffix('.py').replace('/', '.')}"
        assert f"{module} " in done.stdout or f"{module}\n" in done.stdout, done.stdout


RESOLVED = """
import importlib
for module, name in (
    ("tasks.families", "FAMILIES"), ("models.architectures", "ARCHITECTURES"), ("models.routers", "ROUTERS"),
    ("analysis.figures", "FIGURES"), ("analysis.claims", "CLAIMS"), ("studies", "STUDIES"),
    ("metrics", "MEASURES"),
):
    print(name, list(getattr(importlib.import_module(f"modtf.{module}"), name).items()))
from modtf.studies.load import load_study
print(load_study("testing").cells)
"""


@pytest.mark.parametrize("experiment", ["questions", "corruptions"])
def test_a_deleted_folder_removes_its_experiment_and_nothing_else(copied_tree: Path, experiment: str) -> None:
    """All other parts are found, a study has its cells, and the contracts hold, without another edit."""
    shutil.rmtree(copied_tree / "modtf" / "experiments" / experiment)
    done = python("-c", RESOLVED, cwd=copied_tree, env={"PYTHONPATH": str(copied_tree)})
    assert done.returncode == 0, done.stderr
    names = set(re.findall(r"\('(\w+)', ", done.stdout))
    other = {"questions": "corruptions", "corruptions": "sqoop"}[experiment]
    assert {"mlp", "modular", "ranking", "gt_modular_wins", "paper", "alignment", other} <= names
    assert not names & {"questions": {"sqoop", "vqa_mnist"}, "corruptions": {"corruptions"}}[experiment]
    assert "0 broken" in lint_imports(copied_tree).stdout


def sources() -> list[Path]:
    """Return the Python files of the tree; links lead to files that are there already."""
    paths = [p for name in (*FOLDERS, "examples", "tests") for p in (ROOT / name).rglob("*.py")]
    links = [ROOT / "modtf" / name for name in FOLDERS]
    return [p for p in paths if not any(link in p.parents for link in links)]


def names_of_families(path: Path) -> list[str]:
    """Return the lines of a file that have a family name as a string of its own."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [f"{path}:{n}: {line.strip()}" for n, line in enumerate(lines, 1) if FAMILY_NAME.search(line)]


def test_nobody_else_knows_the_families_by_name() -> None:
    """Everything else asks `FAMILIES`, so that a new family needs no edit there."""
    lines = {path.relative_to(ROOT).as_posix(): names_of_families(path) for path in sources()}
    allowed = [name for name in lines if name.startswith(MAY_NAME_FAMILIES)]
    assert any(lines[name] for name in allowed), "the search finds nothing at all"
    assert [line for name in lines if name not in allowed for line in lines[name]] == []
