"""The studies of the tree, and those of users."""

import sys
from collections import Counter

import pytest
from registering import forgotten

from modtf.studies import STUDIES, grid, load_study, register_study
from modtf.tasks.cell import VARIANTS
from modtf.tasks.families import with_free_rules
from modtf.tasks.protocol import Protocol

OWN = '''"""Mine."""
from modtf.studies import grid
CELLS = grid(arch="mlp", width=[32, {width}], num_rules=32).cells()
'''
SEVERAL = """
from widths_of_studies import WIDTH
from modtf.studies import grid
def of_width(width): return grid(arch="mlp", width=width).cells()
def small(): return of_width(32)
def wide(): return of_width(WIDTH)
"""


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_says_what_it_is(name):
    study = load_study(name)
    description = sys.modules[STUDIES[name].__module__].__doc__ or ""
    assert f"--study={name}" in description
    assert str(len(study.cells)) in description.partition("\n")[0]


def test_the_paper():
    cells = load_study("paper").cells
    assert len(cells) == 800
    assert sum(len(cell.members) for cell in cells) == 20_000
    assert len({cell.folder for cell in cells}) == 800
    names = ("setting", "num_rules", "width", "variant")
    counts = [Counter(cell.columns[name] for cell in cells) for name in names]
    assert [set(count.values()) for count in counts] == [{400}, {160}, {160}, {200}]
    kinds = Counter((cell.task.arch, cell.columns["task_options"]) for cell in cells)
    assert kinds == {("mlp", ""): 200, ("mha", "search=v1"): 200, ("mha", "search=v2"): 200, ("rnn", ""): 200}
    assert all(cell.protocol == Protocol.published(cell.task) for cell in cells)


def test_the_smallest_study_runs_everything():
    found = {(cell.task.arch, cell.task.setting, cell.variant) for cell in load_study("testing").cells}
    assert found == {
        (arch, setting, variant)
        for arch, family in with_free_rules().items()
        for setting in family.settings
        for variant in VARIANTS
    }


def test_a_users_file(tmp_path):
    path = tmp_path / "my_first_study.py"
    path.write_text(OWN.format(width=64))
    study = load_study(path)
    assert (study.name, study.plugin) == ("my_first_study", str(path))
    assert [cell.width for cell in study.cells] == [32, 64]
    listed = tmp_path / "my_listed_study.py"
    listed.write_text(OWN.format(width=64).replace("CELLS", "cells"))
    assert load_study(listed).cells == study.cells


def test_a_file_with_several_studies(tmp_path):
    """It imports a neighbour, as a script can."""
    (tmp_path / "widths_of_studies.py").write_text("WIDTH = 64\n")
    path = tmp_path / "several_studies.py"
    path.write_text(SEVERAL)
    study = load_study(f"{path}:wide")
    assert (study.name, study.plugin, [cell.width for cell in study.cells]) == ("wide", str(path), [64])
    for name in ("width", "of_width"):
        with pytest.raises(ValueError, match=rf"several_studies.py:{name}'.* expected one of small, wide"):
            load_study(f"{path}:{name}")
    with pytest.raises(ValueError, match=r"given as FILE\.py:NAME"):
        load_study(path)


def test_a_study_is_registered_by_name():
    with forgotten(STUDIES):
        register_study("mine")(lambda: grid(arch="mlp", width=[32, 64]).cells())
        assert [cell.width for cell in load_study("mine").cells] == [32, 64]
        with pytest.raises(ValueError, match=r"paper, .*mine, or a file"):
            load_study("yours")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (OWN.format(width=2), r"1 of 2 cells cannot run:\n  mlp_regression_r32_e2_modular: width=2 is"),
        (OWN.format(width=32), "holds the cell mlp_regression_r32_e32_modular twice"),
        ("x = 1", "must define CELLS.* found NoneType"),
        ("CELLS = []", "has no cells"),
        ("1 / 0", "failed in line 1: ZeroDivisionError"),
        ("SIZES = {}\ndef cells(): return SIZES['x']", "^The study '.*' failed in line 2: KeyError: 'x'$"),
        ("def cells(width): return []", r"failed: TypeError: cells\(\) missing 1 required"),
        ("from modtf.studies import grid; CELLS = grid(arch='mlp')", "found Grid. The method cells"),
        ("from modtf.studies import grid; CELLS = grid(variant='me').cells()", "variant='me' is not known"),
    ],
)
def test_a_users_mistakes(tmp_path, text, words, request):
    path = tmp_path / f"study_{abs(hash(request.node.name))}.py"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        load_study(path)
