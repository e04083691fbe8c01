from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from simulated_results import TRAINING, World, cells_of, results_of, simulate, write_cell
from sources import whole_kinds

from modtf import Cell, Task
from modtf.analysis import Study, find_missing
from modtf.results import find_cells, load_results
from modtf.tasks.families import FAMILIES

SMALL = {"settings": ["regression"], "rules": [2], "seeds": [0, 1], "num_evaluations": 2}


def test_a_study_says_what_it_holds(tmp_path):
    world, kinds = World(diverged=(("modular", 0, 1),)), [("mha", {"search": "v2"})]
    simulate(tmp_path, kinds=kinds, variants=["modular", "gt_modular"], world=world, **SMALL)
    simulate(tmp_path, settings=["classification"], rules=[2, 8], seeds=[0], num_evaluations=1)
    text = repr(Study.read(tmp_path))
    assert "36 models in 10 cells, checkpoint tail" in text
    assert "MLP classification: R = 2, 8; width 32; monolithic, modular, modular_op, gt_modular; " in text
    assert "MHA v2 regression: R = 2; width 32; modular, gt_modular; 3 tasks x 2 seeds; 1 diverged" in text
    assert text.index("MLP") < text.index("MHA")
    assert "requested and missing: nothing" in text


def test_the_tail_is_the_default_and_others_can_be_asked_for(small_folder, small_study, monkeypatch):
    names = ("tail", "last", "best", "pooled")
    frame = load_results(small_folder)
    studies = {name: Study(frame, checkpoint=name) for name in names}
    losses = {name: one.results.query("measure == 'loss'")["value"].mean() for name, one in studies.items()}
    assert small_study.checkpoint == "tail"
    assert losses["pooled"] == pytest.approx((losses["last"] + losses["best"]) / 2)
    assert len(set(losses.values())) == 4
    monkeypatch.setattr(type(FAMILIES["mlp"]), "checkpoint", "best")
    assert Study.read(small_folder).checkpoint == "best"


def test_the_last_weights_are_the_default_if_learning_rates_end_at_0(tmp_path):
    cosine = {**SMALL, "variants": ["modular"], "training": replace(TRAINING, schedule="cosine")}
    assert Study.read(simulate(tmp_path, **cosine)).checkpoint == "last"
    simulate(tmp_path, kinds=[("rnn", {})], **{**cosine, "training": TRAINING})
    assert Study.read(tmp_path).checkpoint == "tail"  # of families whose rates differ
    protocols = {cell.cell["arch"]: cell.protocol for cell in find_cells(tmp_path)}
    assert Study.read(tmp_path, protocols=[protocols["mlp"]]).checkpoint == "last"


def test_rows_of_a_study_are_a_study():
    study = Study(results_of(rules=[2], variants=[("modular", {"modules": 3}), "gt_modular"]))
    again = Study(study.results)
    assert again.variants == study.variants == ["modular (modules=3)", "gt_modular"]
    assert set(again.results["router"]) == {"modular", "gt_modular"}


def test_pooling_keeps_what_diverged(tmp_path):
    simulate(tmp_path, world=World(diverged=(("modular", 0, 1),)), **SMALL)
    frame = load_results(tmp_path)
    best = (frame["checkpoint"] == "best") & frame["value"].isna() & (frame["measure"] == "loss")
    frame.loc[best, "value"] = 1.0  # the best weights are those before it diverged
    study = Study(frame, checkpoint="pooled")
    assert len(study.diverged) == 1
    assert len(study.results) == len(Study(frame, checkpoint="last").results)


def test_two_protocols_are_not_mixed(tmp_path):
    simulate(tmp_path, variants=["modular"], **SMALL)
    simulate(tmp_path, variants=["gt_modular"], training=replace(TRAINING, steps=8000), **SMALL)
    with pytest.raises(ValueError, match=r"MLP regression cells .* 2 different ways, .* --protocol"):
        Study.read(tmp_path)
    protocols = {cell.cell["variant"]: cell.protocol for cell in find_cells(tmp_path)}
    study = Study.read(tmp_path, protocols=[protocols["modular"]])
    assert study.variants == ["modular"]
    assert len(study.cells) == 1


def test_variants_may_have_learning_rates_of_their_own(tmp_path):
    """Tuning finds one rate per variant; no variant may have two."""
    rates = {"monolithic": 1e-4, "modular": 2e-4, "modular_op": 4e-4, "gt_modular": 8e-4}
    for variant, rate in rates.items():
        simulate(tmp_path, variants=[variant], training=replace(TRAINING, learning_rate=rate), **SMALL)
    study = Study.read(tmp_path)
    assert study.variants == list(rates)
    drawn = study.figure("performance_vs_num_rules")[0].table
    assert set(drawn["variant"]) == set(rates), "none is left out as one of another size"
    assert drawn["num_models"].nunique() == 1
    assert study.claims(["gt_modular_wins"])["num_models"].tolist() == [3, 3]
    simulate(tmp_path, variants=["modular"], training=replace(TRAINING, learning_rate=0.5), **SMALL)
    with pytest.raises(ValueError, match=r"5 different ways, .*@0\.0001: 1 cell.*@0\.5: 1 cell"):
        Study.read(tmp_path)


def test_variants_with_options_have_names_of_their_own(tmp_path):
    variants = ["modular", ("modular", {"modules": 4, "temperature": 0.5}), "mine"]
    simulate(tmp_path, variants=variants, **SMALL)
    study = Study.read(tmp_path)
    assert study.variants == ["modular", "modular (modules=4, temperature=0.5)", "mine"]
    assert set(study.results["router"]) == {"modular", "mine"}
    assert set(study.history["variant"]) == set(study.variants)
    (found,) = study.activations(variant=study.variants[1])
    assert found.last.shape == (6, 2, 4)
    assert found.cell["variant"] == study.variants[1]
    assert found.cell["router"] == "modular"


def test_parts_of_a_study(small_study):
    assert small_study.kinds == [("mlp", "regression", ""), ("mlp", "classification", "")]
    part = small_study.part("mlp", "classification").part(variant=["modular"])
    assert set(part.results["setting"]) == set(part.history["setting"]) == {"classification"}
    assert set(part.performance["measure"]) == {"error"}
    assert part.variants == ["modular"]
    assert len(part.cells) == 3
    table = small_study.summary(["setting", "variant"], ["num_rules"], measure="alignment")
    assert len(table) == 6
    assert (table["num_tasks"] == 3).all()


def test_results_alone_are_a_study(small_folder, small_study, tmp_path):
    """A published table is enough."""
    load_results(small_folder).to_csv(tmp_path / "study.csv.gz", index=False)
    study = Study(pd.read_csv(tmp_path / "study.csv.gz", keep_default_na=False, na_values={"value": ""}))
    np.testing.assert_allclose(study.summary()["mean"], small_study.summary()["mean"])
    assert study.history.empty
    assert "missing" not in repr(study)


def test_no_finished_cell_is_said(tmp_path):
    write_cell(tmp_path, Cell(Task(), 32, "modular", ((0, 0),)), finished=False)
    with pytest.raises(ValueError, match=r"is finished\. "):
        Study.read(tmp_path)


def test_only_what_was_asked_for_is_missing(tmp_path):
    """Other widths, numbers of tasks or options do not count as missing."""
    members = ((0, 0), (1, 0), (2, 0))
    write_cell(tmp_path, Cell(Task(), 32, "modular", members), num_evaluations=1)
    write_cell(tmp_path, Cell(Task(), 32, "gt_modular", ((0, 0),)), num_evaluations=1)
    write_cell(tmp_path, Cell(Task(), 64, "modular", members, router={"modules": 4}), num_evaluations=1)
    assert find_missing(tmp_path).empty
    begun = write_cell(tmp_path, Cell(Task(), 32, "modular_op", ((0, 0),)), finished=False)
    (row,) = find_missing(tmp_path).itertuples()
    assert (row.width, row.variant, row.status, row.detail) == (32, "modular_op", "unfinished", str(begun))
    (begun / "error.json").write_text("{}")
    (row,) = find_missing(tmp_path).itertuples()
    assert (row.status, row.detail) == ("failed", f"{begun / 'error.json'} says why")


def test_cells_of_another_study_do_not_stand_for_planned_ones(tmp_path):
    """Both kinds have two cells. One of those of classification has an R that was not planned."""
    sizes = {"variants": ["modular"], "data_seeds": [0], "seeds": [0]}
    planned = list(cells_of(rules=[2, 8], **sizes))
    simulate(tmp_path, settings=["regression"], rules=[2, 8], num_evaluations=1, **sizes)
    simulate(tmp_path, settings=["classification"], rules=[2, 32], num_evaluations=1, **sizes)
    kept = whole_kinds(find_cells(tmp_path), planned)
    assert {cell.cell["setting"] for cell in kept} == {"regression"}
    assert len(kept) == 2


def test_tables_that_were_joined_may_name_a_row_twice(tmp_path):
    first = load_results(simulate(tmp_path / "a", **SMALL))
    second = load_results(simulate(tmp_path / "b", **{**SMALL, "settings": ["classification"]}))
    joined = Study(pd.concat([first, second])).results
    assert joined.index.is_unique
    assert len(joined) == len(Study(first).results) + len(Study(second).results)
