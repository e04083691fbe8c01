"""The study of SQOOP: its cells, claims and figure."""

import runpy
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sqoop

import modtf
from modtf.analysis.claims import judge_all
from modtf.experiments.questions.examples import ANSWERS, SHOWN, examples, sentence
from modtf.experiments.questions.sets import PLAIN, SQOOP, TREES
from modtf.results.schema import COLUMNS
from modtf.studies import load_study
from modtf.tasks.families import FAMILIES

SCRIPTS = Path(__file__).parents[4] / "docs" / "scripts"
CLAIMS = ("trees_beat_plain_networks", "modules_per_symbol_beat_one")
PUBLISHED = {  # % of error on pairs never seen (D'Amario et al., Table App.5): five objects, two
    "mac": (16, 34),
    "film": (30, 23),
    "all_all_all_bn": (0.2, 16),
    "all_sub_all_bn": (0.04, 11.5),
}


def study_of(novel=PUBLISHED, iid=1.0):
    """A study of models with these errors, as `load_results` gives them."""
    rows = []
    for (name, errors), number, seed in product(novel.items(), (0, 1), range(5)):
        noise = 0.02 * np.sin(7 * seed + len(name))
        for condition, value in (("iid", iid + noise), ("novel", errors[number] + noise)):
            rows.append((f"objects={(5, 2)[number]},symbols=6", name, seed, condition, value))
    frame = pd.DataFrame(rows, columns=["task_options", "variant", "data_seed", "condition", "value"])
    fixed = {"num_rules": 10, "num_modules": 1, "width": 8, "model_options": "", "seed": 0, "steps": 9}
    fixed |= {"num_parameters": 9, "checkpoint": "tail", "measure": "error", "place": "", "arch": SQOOP}
    frame = frame.assign(**fixed, setting="categorical")[list(COLUMNS)]
    frame = frame.assign(protocol="quick", folder=frame["variant"])
    return modtf.Study(frame, frame.assign(step=0).iloc[:0])


@pytest.mark.parametrize(
    ("study", "verdicts"),
    [
        (study_of(), ["supported", "supported"]),
        (
            study_of(dict(zip(PUBLISHED, [(0, 0), (0, 0), (5, 5), (10, 10)], strict=True))),
            ["contradicted"] * 2,
        ),
        (study_of(iid=12.0), ["not enough runs"] * 2),
    ],
    ids=["published", "the opposite", "not learned"],
)
def test_claims(study, verdicts):
    judged = judge_all(study, CLAIMS)
    found = [set(judged.loc[judged["claim"] == name, "verdict"]) for name in CLAIMS]
    assert found == [{verdict} for verdict in verdicts], judged[["claim", "evidence", "value", "verdict"]]


def test_figure():
    (picture,) = study_of().figure("sqoop_accuracy")
    table = picture.table.set_index(["distribution", "objects", "variant"])["mean"]
    np.testing.assert_allclose(table["out of distribution", "2 objects", "mac"], 66, atol=0.1)
    np.testing.assert_allclose(table["in distribution", "5 objects", "film"], 99, atol=0.1)
    assert set(picture.table["measure"]) == {"accuracy"}


def test_the_study():
    cells = load_study("sqoop_quick").cells
    default = [variant.name for variant in FAMILIES[SQOOP].variants if variant.by_default]
    assert set(TREES) <= set(default)
    expected = [(objects, name) for objects in (2, 5) for name in default]
    assert [(cell.task.objects, cell.variant) for cell in cells] == expected
    for cell in cells:
        assert (cell.width, cell.task.symbols, cell.task.side, len(cell.members)) == (8, 6, 32, 5)
    assert not set(PLAIN) & set(TREES)


#: study -> the rates of its networks, its objects and steps
LONGER = {"sqoop_long": (sqoop.RATES, 2, 4_000), "sqoop_five": (sqoop.FIVE_RATES, 5, 10_000)}


@pytest.mark.parametrize("name", LONGER)
def test_rates_of_the_longer_studies_are_searched_on_another_task(name):
    rates, objects, steps = LONGER[name]
    long, tuned = getattr(sqoop, name)(), getattr(sqoop, f"{name}_tuning")()
    for reported, cell in zip(long, tuned, strict=True):
        protocol = cell.protocol.replace(learning_rate=rates[cell.variant], steps=steps)
        assert reported == replace(cell, members=reported.members, protocol=protocol)
        assert not set(reported.members) & set(cell.members)
    assert {(cell.task.objects, cell.protocol.training.steps) for cell in long} == {(objects, steps)}
    assert {cell.variant for cell in long} == {*TREES, *PLAIN}


@pytest.mark.parametrize("name", LONGER)
def test_each_rate_is_the_best_of_the_search_and_not_its_end(name, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    rates, trials = LONGER[name][0], runpy.run_path(str(SCRIPTS / "draw_sqoop.py"))["trials"](name)
    for network, rows in trials.groupby("network"):
        assert rows.loc[rows["error"].idxmin(), "rate"] == rates[network]
        assert rows["rate"].min() < rates[network] < rows["rate"].max()
    assert set(trials["network"]) == set(rates)


@pytest.mark.parametrize("arch", ["vqa_mnist", "sqoop"])
def test_examples_have_a_question_and_an_answer(arch):
    found = examples(modtf.Task(arch))
    assert len(found) == SHOWN
    assert all(question.endswith("?") and answer in ANSWERS for _, question, answer in found)
    assert len({question for _, question, _ in found}) > 2
    assert {image.ndim for image, *_ in found} == {3}


@pytest.mark.parametrize(
    ("question", "sub_tasks", "text"),
    [
        ("attribute", ["8"], "Is it an 8?"),
        ("attribute", ["half"], "Is it half bright?"),
        ("multiple", ["red"], "Is any digit red?"),
        ("comparison", ["size", "size", "smaller"], "Is the left one smaller?"),
        ("comparison", ["color", "color", "different_color"], "Do they differ in color?"),
        ("spatial", ["pink", "5", "below"], "Is the pink one below the 5?"),
        ("sqoop", ["A", "7", "left_of"], "Is A left of 7?"),
    ],
)
def test_a_question_is_a_sentence(question, sub_tasks, text):
    assert sentence(question, sub_tasks) == text
