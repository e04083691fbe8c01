"""The study `open_questions`: its parts, tasks of its own, and the rates of its pilot."""

import re

from modtf.experiments.modarch.studies import open_questions as study
from modtf.studies import load_study


def test_the_parts_are_those_of_the_table():
    rows = re.findall(r"^\| (\w+) \| [^|]+ \| (\d+) \|$", study.__doc__ or "", flags=re.MULTILINE)
    parts = study.parts()
    assert {name: int(count) for name, count in rows} == {name: len(part) for name, part in parts.items()}
    cells = load_study("open_questions").cells
    assert len(cells) == len({cell.hash for cell in cells}) == sum(map(len, parts.values()))
    assert [cell.task.arch for cell in cells] == sorted(cell.task.arch for cell in cells)


def test_rates_were_chosen_on_other_tasks():
    reported, pilot = (load_study(name).cells for name in ("open_questions", "open_questions_tuning"))
    tasks = [{task for cell in cells for task, _ in cell.members} for cells in (reported, pilot)]
    assert not tasks[0] & tasks[1]
    assert all(study.RATES["mlp"][name] in rates for name, rates in study.TRIED.items())
    of_mlp = {cell.protocol.training.learning_rate for cell in reported if cell.task.arch == "mlp"}
    assert of_mlp <= {cell.protocol.training.learning_rate for cell in pilot}


def test_each_question_has_its_condition():
    """A condition exists only for tasks that set its option."""
    conditions = {"finite": "train_data", "withheld": "withheld", "noise": "clean", "harder": "outside"}
    for part, name in conditions.items():
        assert all(cell.task.condition(name).name == name for cell in study.parts()[part].cells())
