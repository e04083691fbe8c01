"""Finished cells with changed, cut, removed or swapped files: no wrong number is read; all damage is named.

Single files are in `tests/modtf/test_damage.py`.
"""

import shutil

import pytest
from simulated_results import simulate

import modtf
from modtf.engines.cell import run_cell
from modtf.engines.state import work_on, write_config
from modtf.results import find_cells, load_results
from modtf.results.archive import write_archive
from modtf.results.cells import read_config
from modtf.results.schema import CORRECTIONS, write_manifest
from modtf.tasks.cell import Cell

SMALL = {"settings": ["regression"], "rules": [2], "data_seeds": [0], "num_evaluations": 1}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two variants of one shape and two widths, with manifests and weights."""
    out = simulate(tmp_path_factory.mktemp("out"), widths=[8, 9], variants=["modular", "modular_op"], **SMALL)
    for folder in sorted(out.iterdir()):
        (folder / "last.keras").write_bytes(folder.name.encode() * 5)
        (folder / CORRECTIONS).write_text(f'{{"corrections": [], "cell": "{folder.name}"}}')
        write_config(Cell.from_dict(read_config(folder)), folder)
        write_manifest(folder)
    return out


def test_a_folder_under_another_name_is_refused(small_cell, finished, tmp_path):
    """A renamed or copied folder is not reused, resumed, overwritten or counted."""
    source = next(finished.iterdir())
    for what in ("config.json", "*"):  # not begun yet, and finished
        out = tmp_path / what.replace("*", "all")
        folder = out / small_cell.folder
        folder.mkdir(parents=True)
        for path in source.glob(what):
            if path.is_file():
                shutil.copy(path, folder)
        before = (folder / "config.json").read_bytes()
        with pytest.raises(ValueError, match=r"holds the cell .*copied\. Move it away"):
            run_cell(small_cell, out, verbose=False)
        with pytest.raises(ValueError, match="holds the cell"):
            work_on(small_cell, out, lambda *_: None)
        assert (folder / "config.json").read_bytes() == before


def test_archives_carry_checksums_and_copies_without_weights_are_whole(finished, tmp_path):
    write_archive(find_cells(finished), tmp_path / "study.zip")
    shutil.unpack_archive(tmp_path / "study.zip", tmp_path / "all")
    shutil.copytree(finished, tmp_path / "light", ignore=shutil.ignore_patterns("*.keras"))
    for out in ("all", "light"):
        assert len(modtf.Study.read(tmp_path / out).cells) == 4
        folder = sorted((tmp_path / out).iterdir())[0]
        assert (folder / CORRECTIONS).is_file()
        text = (folder / "results.csv").read_text()
        (folder / "results.csv").write_text(text.replace("1", "2", 1))
        with pytest.warns(UserWarning, match=r"is damaged and left out: the content of results\.csv changed"):
            study = modtf.Study.read(tmp_path / out)
        assert study.missing["status"].tolist() == ["damaged"]


OTHER = {
    "lacks the member": lambda text: "\n".join(
        line for line in text.split("\n") if ",0,1,35000," not in line
    ),
    "holds the member": lambda text: text + text.split("\n")[1].replace(",0,0,35000,", ",0,7,35000,"),
    "holds alignment=-5; expected a number between 0 and 1": lambda text: _replace_value(
        text, "alignment", "-5"
    ),
    "holds alignment=inf": lambda text: _replace_value(text, "alignment", "1e999"),
    "lacks a score of some member": lambda text: text.replace(",last,loss,iid,", ",last,loss,iie,", 1),
}


def _replace_value(text, measure, value):
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if f",{measure}," in line)
    lines[first] = lines[first].rpartition(",")[0] + f",{value}"
    return "\n".join(lines)


@pytest.mark.parametrize("words", OTHER)
def test_the_schema_is_checked_too(words, finished, tmp_path):
    (folder,) = find_cells(finished)[:1]
    shutil.copytree(folder.path, tmp_path / "cell")
    path = tmp_path / "cell" / "results.csv"
    path.write_text(OTHER[words](path.read_text()))
    write_manifest(tmp_path / "cell")
    with pytest.raises(ValueError, match=rf"results\.csv {words}"):
        load_results(tmp_path)
