"""The studies in docs/studies: their cells never change, and rates were chosen on other tasks."""

import re
import runpy
from pathlib import Path
from zipfile import ZipFile

import factors
import first
import misrouting
import open_questions
import pandas as pd
import pytest
import recurrent

from modtf.experiments.modarch.studies.scorecard import TASKS, TUNED_ON
from modtf.studies import load_study
from modtf.tasks.task import science_hash

DOCS = Path(__file__).parents[1] / "docs"
#: study -> number of cells and the hash of their hashes; docs/study holds results of those that were trained
CELLS = {
    "first.py:first": (56, "73359aa491a0e93c"),
    "first.py:first_cosine": (36, "84e95c844192aa99"),
    "first.py:first_cosine_tuning": (127, "185c4dba5d04ceb6"),
    "misrouting.py:misrouting": (48, "32171f4450dc0fe7"),
    "misrouting.py:misrouting_cosine": (40, "a219ecf33fbd1ed0"),
    "misrouting.py:misrouting_cosine_tuning": (137, "0122860ef64dd9f4"),
    "factors.py:factors": (31, "a370f0aa892678f5"),
    "factors.py:factors_twins": (50, "bbe0703c34198809"),
    "factors.py:factors_started": (8, "b365932f7e5d92b3"),
    "factors.py:factors_tuning": (12, "4c88e8cbfe1d30bf"),
    "factors.py:factors_cosine": (26, "6b00cf2c4ce5cb7a"),
    "factors.py:factors_cosine_tuning": (96, "1df1247284d895a5"),
    "recurrent.py:recurrent_cosine": (15, "9e43a0ab45dfbeec"),
    "recurrent.py:recurrent_cosine_tuning": (46, "f6faedc4a5949afe"),
    "open_questions.py:open_questions": (62, "2e22ca9dddc5cf8f"),
    "open_questions.py:open_questions_tuning": (17, "fecf6513e9b73a8c"),
    "vqa.py:vqa_wide": (1, "7bec2281d5fc70c9"),
    "vqa.py:vqa_attribute": (20, "0fa2beb67bfbfefa"),
    "vqa.py:vqa_supplement": (14, "aee0304b3378687f"),
    "sqoop.py:sqoop_long": (4, "f1156e9c63f01f16"),
    "sqoop.py:sqoop_long_tuning": (4, "a18801349482cff8"),
    "corruptions.py:corruptions_rates": (2, "f90d187231c668bf"),
    "corruptions.py:corruptions_told": (4, "888d24791d8ae646"),
    "languages.py:search": (92, "5b8abda411cfda22"),
    "languages.py:classes_search": (75, "a48c770e427fae67"),
    "languages.py:larger_search": (12, "178d47e2566a74dc"),
    "languages.py:cross_search": (6, "22dc2a2c2cc40817"),
    "languages.py:told_search": (15, "efdb506465f7ac02"),
    "languages.py:total_search": (3, "2e9b4004d22bd164"),
    "vqa.py:vqa_ten_times": (5, "ebf5c0b23766b02a"),
    "vqa.py:vqa_spatial": (2, "3e5cc50b2304560d"),
    "vqa.py:vqa_spatial_tuning": (2, "a966b624eaffe964"),
    "sqoop.py:sqoop_five": (4, "cd2ed5117055398f"),
    "sqoop.py:sqoop_five_tuning": (4, "f9301b6325ed56bd"),
    "sqoop.py:sqoop_more": (3, "a455fa94801e7e11"),
    "routers.py": (30, "9b86d7fb09649c4c"),
    "seeds.py": (4, "d98409b92e0ff519"),
    "paper": (800, "ece61e15c8f65b7a"),
    "vqa_quick": (28, "996135b789155ff5"),
    "sqoop_quick": (8, "28a43bee76614f44"),
    "corruptions_quick": (14, "dfa30c42e9b4545b"),
}


@pytest.mark.parametrize("name", CELLS)
def test_the_cells_of_a_study_are_what_they_were(name):
    path = DOCS / "studies" / name
    cells = load_study(path if ".py" in name else name).cells
    assert (len(cells), science_hash([cell.hash for cell in cells])) == CELLS[name]
    assert not tasks_of(cells) & {*TASKS, *TUNED_ON}  # those of the scorecard
    if ".py" in name:
        description = (DOCS / "studies" / name.partition(":")[0]).read_text("utf-8").split('"""')[1]
        assert f"--study=docs/studies/{name} " in description
        assert re.search(rf"\b{len(cells)}\b", description)


@pytest.fixture(scope="module")
def learned():
    return {f"{factors.FOLDER}/{c.folder}": c for c in factors.factors() if c.variant != "clamped"}


def test_every_router_has_a_soft_and_a_drawn_twin(learned):
    twins: dict[str, list[bool]] = {}
    for twin in factors.factors_twins():
        twins.setdefault(twin.router["of"], []).append(twin.router["hard"])
        of = learned[twin.router["of"]]
        assert (twin.task, twin.members, twin.width) == (of.task, of.members, of.width)
    assert set(twins) == set(learned)
    assert all(hard == [False, True] for hard in twins.values())


def test_a_start_changes_nothing_else(learned):
    for cell in factors.factors_started():
        plain = {**cell.to_dict()["cell"], "trainer": {}}
        assert any({**other.to_dict()["cell"], "trainer": {}} == plain for other in learned.values())
        assert cell.trainer["start"] in ("oracle", "random")


def tasks_of(cells):
    return {task for cell in cells for task, _ in cell.members}


@pytest.mark.parametrize(
    ("reported", "trials"),
    [
        (factors.factors, factors.factors_tuning),
        (open_questions.open_questions, open_questions.open_questions_tuning),
    ],
)
def test_nothing_is_trained_on_tasks_that_it_was_tuned_on(reported, trials):
    assert not tasks_of(reported()) & tasks_of(trials())


@pytest.mark.parametrize(
    ("script", "file", "name"),
    [
        ("draw_cosine", factors, "factors_cosine"),
        ("draw_misrouting_cosine", misrouting, "misrouting_cosine"),
        ("draw_recurrent_cosine", recurrent, "recurrent_cosine"),
        ("draw_study_cosine", first, "first_cosine"),
    ],
)
def test_under_cosine_every_router_has_the_rate_with_the_lowest_validation_loss_of_other_tasks(
    script, file, name
):
    scripts = {name: runpy.run_path(str(DOCS / "scripts" / f"{name}.py")) for name in ("draw_cosine", script)}
    losses, best_rates = scripts[script]["tuned"](), scripts["draw_cosine"]["best_rates"]
    if "num_rules" in losses:
        groups = losses.groupby(["family", "num_rules"])
        assert {group: best_rates(rows) for group, rows in groups} == file.RATES
    else:
        assert best_rates(losses) == file.RATES
    with ZipFile(DOCS / "study" / f"{name}.zip") as archive:
        committed = {path.partition("/")[0] for path in archive.namelist()}
    reported, trials = getattr(file, name)(), getattr(file, f"{name}_tuning")()
    assert committed == {cell.folder for cell in reported}
    tried = pd.read_csv(DOCS / "study" / f"{name}_tuning.csv.gz")
    assert {*tried["folder"]} == {cell.folder for cell in trials}
    assert not tasks_of(reported) & tasks_of(trials)


def test_the_parts_of_the_open_questions_are_those_of_the_table():
    """Each has its condition, which exists only for tasks that set its option."""
    rows = re.findall(r"^\| (\w+) \| [^|]+ \| (\d+) \|$", open_questions.__doc__, flags=re.MULTILINE)
    parts = open_questions.parts()
    assert {name: int(count) for name, count in rows} == {name: len(part) for name, part in parts.items()}
    conditions = {"finite": "train_data", "withheld": "withheld", "noise": "clean", "harder": "outside"}
    for part, name in conditions.items():
        assert all(cell.task.condition(name).name == name for cell in parts[part].cells())


def test_rates_of_the_open_questions_were_tried():
    assert all(open_questions.RATES["mlp"][name] in rates for name, rates in open_questions.TRIED.items())
