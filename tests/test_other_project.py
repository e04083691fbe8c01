"""Another project, outside the repository, with modtf installed from its wheel beside foreign packages."""

import shutil
import zipfile
from pathlib import Path

import pytest
from processes import ROOT, python, succeeds

pytestmark = pytest.mark.slow  # builds a wheel

SOURCES = ("modtf", "datasets", "models", "metrics", "launch")
FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE")

BESIDE_FOREIGN_PACKAGES = """
import datasets, models, metrics, launch  # not ours
assert {m.OWNER for m in (datasets, models, metrics, launch)} == {"somebody else"}
import modtf, modtf.datasets
assert not hasattr(modtf.datasets, "OWNER")
print(modtf.__file__)
"""


def outside(folder: Path) -> dict[str, str]:
    """Return an environment that finds packages in `folder` first, and never in the repository."""
    return {"PYTHONPATH": str(folder), "TF_CPP_MIN_LOG_LEVEL": "3"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages: the wheel of modtf, and foreign `datasets`, `models`, ..."""
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in SOURCES:
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, source / name)
    succeeds("-m", "pip", "wheel", "--no-deps", "--quiet", ".", "--wheel-dir", "wheel", cwd=source)
    (wheel,) = (source / "wheel").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder)
    for name in ("datasets", "models", "metrics", "launch"):
        assert not (folder / name).exists(), f"the wheel takes the name {name!r}"
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text('OWNER = "somebody else"\n')
    return folder


def test_foreign_packages_of_the_same_names(installed: Path, tmp_path: Path) -> None:
    printed = succeeds("-W", "error", "-c", BESIDE_FOREIGN_PACKAGES, cwd=tmp_path, env=outside(installed))
    assert Path(printed.strip()).is_relative_to(installed)


def test_the_console_command(installed: Path, tmp_path: Path) -> None:
    (entry,) = installed.glob("modtf-*.dist-info/entry_points.txt")
    assert "modtf = modtf.launch.main:main" in entry.read_text().splitlines()
    console = "from modtf.launch.main import main; main()"
    run = python("-c", console, "run", "--rules=1", cwd=tmp_path, env=outside(installed))
    assert run.returncode == 1
    assert run.stderr == "modtf run: error: --rules=1 is not valid; expected an integer of at least 2.\n"


def test_a_keras_model_learns_the_rules(installed: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "other_project", tmp_path / "project")
    name = "modarch_rules/mlp_regression_r4_task0_validation10_test512"
    given, where = (f"--data_dir={tmp_path / 'data'}", "--name", name), tmp_path / "project"
    lines = succeeds("train.py", *given, cwd=where, env=outside(installed)).splitlines()
    (place,) = (line for line in lines if line.startswith("modtf "))
    assert str(installed) in place
    (loss,) = (float(line.split()[-1]) for line in lines if line.startswith("test loss"))
    assert loss < 0.05
    assert sum(line.startswith("rule_") for line in lines) == 4
