"""CONTRIBUTING.md names the files that an addition touches: they exist, and nobody else imports them."""

import re
from pathlib import Path

import grimp
import pytest

from modtf.analysis.claims import CLAIMS
from modtf.analysis.figures import FIGURES
from modtf.metrics import MEASURES
from modtf.models.architectures import ARCHITECTURES
from modtf.models.routers import ROUTERS
from modtf.routing.analyses import ANALYSES
from modtf.routing.formats.registry import FORMATS
from modtf.tasks.families import FAMILIES

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

REGISTRIES = (ANALYSES, FAMILIES, ARCHITECTURES, ROUTERS, MEASURES, FORMATS, FIGURES, CLAIMS)

# Who may import the file of a registered thing, besides the registry that finds it by name: a family's data
# ask their family, and `modtf.metrics` exports its functions.
MAY_IMPORT = {
    "analysis": r"modtf\.routing\.analyses\.(saturation|consistency)",  # those of repetition and cache
    "family": r"modtf\.datasets\.families\.\w+",
    "architecture": r"nobody",
    "variant": r"nobody",
    "measure": r"modtf\.metrics|modtf\.analysis\.figures\.activation",
    "format": r"modtf\.routing\.(formats\.flame|analyses\.similarity)",  # files of Parquet, of tensors
    "figure": r"modtf\.(analysis|experiments\.\w+)\.figures(\.\w+)?",
    "claim": r"nobody",
}


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("modtf", cache_dir=None)


@pytest.mark.parametrize("registry", REGISTRIES, ids=[registry.kind for registry in REGISTRIES])
def test_nothing_else_imports_what_is_registered(registry, imports):
    """Else adding one would mean editing that, too."""
    assert registry._modules
    for module in set(registry._modules.values()):
        for importer in imports.find_modules_that_directly_import(module):
            if module.startswith("modtf.experiments.") and importer.split(".")[:3] == module.split(".")[:3]:
                continue  # one folder
            assert re.fullmatch(MAY_IMPORT[registry.kind], importer), f"{importer} imports {module}"


def rows() -> list[list[str]]:
    """The cells of the table of additions, a list per row."""
    table = TEXT.split("## Add a part")[1].split("\n## ")[0]
    lines = [line.strip().strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def test_it_speaks_of_every_kind_of_addition():
    kinds = [row[0] for row in rows()]
    assert kinds == [
        "family", "architecture", "router", "recurrent cell", "measure", "format", "analysis", "figure",
        "claim", "study", "command",
    ]  # fmt: skip


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_the_files_it_names_are_there(row):
    paths = [path for cell in row for path in re.findall(r"`([\w/]+(?:\.py|\.toml|/))", cell)]
    assert len(paths) >= 2
    for path in paths:
        pattern = path.replace("NAME", "*")
        assert list(ROOT.glob(pattern)), f"{path} is not there"
