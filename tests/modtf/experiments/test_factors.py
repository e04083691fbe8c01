"""The studies of routers that differ in one factor: the pairs that are compared."""

import runpy
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest

from modtf.experiments.modarch.given import times
from modtf.experiments.modarch.studies import (
    factors_cosine,
    first_cosine,
    misrouting_cosine,
    recurrent_cosine,
)
from modtf.experiments.modarch.studies.factors import FOLDER
from modtf.studies import load_study

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def learned():
    cells = load_study("factors").cells
    return {f"{FOLDER}/{cell.folder}": cell for cell in cells if cell.variant != "clamped"}


def test_every_router_has_a_soft_and_a_drawn_twin(learned):
    twins: dict[str, list[bool]] = {}
    for twin in load_study("factors_twins").cells:
        twins.setdefault(twin.router["of"], []).append(twin.router["hard"])
        of = learned[twin.router["of"]]
        assert (twin.task, twin.members, twin.width) == (of.task, of.members, of.width)
    assert set(twins) == set(learned)
    assert all(hard == [False, True] for hard in twins.values())


def test_a_start_changes_nothing_else(learned):
    for cell in load_study("factors_started").cells:
        plain = {**cell.to_dict()["cell"], "trainer": {}}
        assert any({**other.to_dict()["cell"], "trainer": {}} == plain for other in learned.values())
        assert cell.trainer["start"] in ("oracle", "random")


def tasks_of(cells):
    return {task for cell in cells for task, _ in cell.members}


def test_nothing_is_trained_on_tasks_that_it_was_tuned_on(learned):
    assert not tasks_of(load_study("factors_tuning").cells) & tasks_of(learned.values())


@pytest.mark.parametrize(
    ("script", "study"),
    [
        ("draw_cosine", factors_cosine),
        ("draw_misrouting_cosine", misrouting_cosine),
        ("draw_recurrent_cosine", recurrent_cosine),
        ("draw_study_cosine", first_cosine),
    ],
)
def test_under_cosine_every_router_has_the_rate_with_the_lowest_validation_loss_of_other_tasks(
    script, study, monkeypatch
):
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    scripts = {name: runpy.run_path(str(DOCS / "scripts" / f"{name}.py")) for name in ("draw_cosine", script)}
    losses, best_rates = scripts[script]["tuned"](), scripts["draw_cosine"]["best_rates"]
    if "num_rules" in losses:
        groups = losses.groupby(["family", "num_rules"])
        assert {group: best_rates(rows) for group, rows in groups} == study.RATES
    else:
        assert best_rates(losses) == study.RATES
    name = study.__name__.rpartition(".")[2]
    with ZipFile(DOCS / "study" / f"{name}.zip") as archive:
        committed = {path.partition("/")[0] for path in archive.namelist()}
    reported, trials = load_study(name).cells, load_study(f"{name}_tuning").cells
    assert committed == {cell.folder for cell in reported}
    tried = pd.read_csv(DOCS / "study" / f"{name}_tuning.csv.gz")
    assert {*tried["folder"]} == {cell.folder for cell in trials}
    assert not tasks_of(reported) & tasks_of(trials)


def test_how_many_times_as_much():
    values = np.array([0.5, 2.0, 8.0])
    rows = [pd.DataFrame({"data_seed": range(3), "seed": 0, "value": v}) for v in (3 * values, values)]
    assert times(*rows) == "3.00 (3.00 to 3.00)"
    assert times(rows[0].head(0), rows[1]) == ""
