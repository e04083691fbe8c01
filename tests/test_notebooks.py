"""The notebooks of docs/ run from top to bottom, in minutes, and are kept without outputs."""

import json
import resource
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs").glob("*.ipynb"))
SECONDS = 180  # of processor time that a notebook may take: a busy machine does not raise it
TIMEOUT = 1_200  # of a cell that hangs


def seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read(path: Path) -> nbformat.NotebookNode:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_a_page_of_the_site_with_all_its_cells(path):
    spec = spec_from_file_location("notebooks", path.parent / "scripts" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(hook := module_from_spec(spec))
    page = hook.markdown_of(json.loads(path.read_text()), path.name)
    assert all(cell.source in page for cell in read(path).cells)
    assert page.count("```") == 2 * sum(cell.cell_type == "code" for cell in read(path).cells)
    assert hook.page_of(path.name) in (path.parents[1] / "mkdocs.yml").read_text()
    assert hook.on_page_markdown(f"see [it]({path.name})") == f"see [it]({path.stem}_notebook.md)"


def test_there_are_two():
    assert [path.name for path in NOTEBOOKS] == ["first_look.ipynb", "your_model.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_without_outputs(path):
    for cell in read(path).cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    notebook, before = read(path), seconds_of_children()
    client = NotebookClient(notebook, timeout=TIMEOUT, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    assert 1 < seconds_of_children() - before < SECONDS
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 2
    assert "alignment" in "".join(output.get("text", "") for output in outputs)
