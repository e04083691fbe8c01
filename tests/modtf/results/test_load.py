import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from registering import forgotten
from simulated_results import simulate, write_cell

import modtf
from modtf import Cell, Protocol, Task
from modtf.metrics import MEASURES, alignment
from modtf.results import find_cells, load_activations, load_history, load_results
from modtf.results.schema import CELL, COLUMNS, MEMBER, PRIVATE, write_activations, write_manifest
from modtf.tasks.families.mlp import MLP
from modtf.tasks.observed import Place


def one_cell(out, num_rules=2, variant="modular", members=((0, 0), (0, 1)), finished=True, **protocol):
    task = Task("mlp", "regression", num_rules)
    cell = Cell(task, 32, variant, members, Protocol.quick(task).replace(**protocol))
    return write_cell(out, cell, num_evaluations=2, finished=finished)


def change_config(folder, *path, to):
    config = json.loads((folder / "config.json").read_text())
    place = config
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    (folder / "config.json").write_text(json.dumps(config))
    write_manifest(folder)


def test_all_finished_cells_are_one_tidy_table(small_study):
    frame = load_results(small_study)
    assert list(frame)[: len(COLUMNS)] == list(COLUMNS)
    assert len(frame.drop_duplicates(list(MEMBER))) == 2 * 3 * 4 * 6
    assert set(frame["condition"]) == {"iid", "scale2"}
    assert (frame["model_options"] == "").all()
    assert frame["protocol"].nunique() == 1
    for name, dtype in COLUMNS.items():
        assert frame[name].dtype == ("category" if dtype == "str" else dtype), name


@pytest.mark.parametrize("inside", ["", "modular/"])
def test_unfinished_files_of_other_processes_are_no_results(tmp_path, monkeypatch, inside):
    """Also if such a folder vanishes while it is listed, which `rglob` does not survive."""
    one_cell(tmp_path / "modular", finished=False)
    shutil.copytree(next((tmp_path / "modular").iterdir()), tmp_path / inside / ".writing-host-x" / "cell")
    real = os.scandir

    def scandir(path):
        assert ".writing-" not in str(path), "it is entered"
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    (cell,) = find_cells(tmp_path)
    assert not cell.is_finished
    assert ".writing-" not in str(cell.path)


def test_texts_are_in_the_order_of_tables(small_study):
    frame = load_results(small_study)
    order = ["monolithic", "modular", "modular_op", "gt_modular"]
    assert frame["variant"].cat.categories.tolist() == order
    assert frame.groupby("variant", observed=True).size().index.tolist() == order
    assert frame["checkpoint"].cat.categories.tolist() == ["tail", "last", "best"]
    assert frame["measure"].cat.categories[:3].tolist() == ["loss", "error", "collapse_avg"]


BARS = "collapse_and_specialisation_bars"


@pytest.mark.parametrize("group", ["specialisation", "diagnostic"])
def test_a_measure_registered_after_training_is_computed_from_stored_activations(small_study, group):
    diagnostic = group == "diagnostic"
    said: dict = {
        "group": group,
        "range": (0.0, 1.0),
        "perfect": None if diagnostic else 0.0,
        "smaller_is_better": None if diagnostic else True,
        "description": "Alignment, again.",
        "axis_label": "Again",
    }
    with forgotten(MEASURES):
        modtf.register_measure("again", **said)(lambda A: alignment(A))
        study = modtf.Study.read(small_study)
        assert "again" in study.table().splitlines()[2]
        assert all("again" in set(picture.table["measure"]) for picture in study.figure(BARS))
        frame = load_results(small_study)
    assert frame["measure"].dtype == "category"
    names, key = ["alignment", "again"], ["folder", "checkpoint", "data_seed", "seed"]
    both = frame[frame["measure"].isin(names)].pivot_table("value", key, "measure", observed=True)
    for checkpoint in ("last", "best"):  # the simulated tail is of one evaluation
        found = both.xs(checkpoint, level="checkpoint")
        assert len(found) == 2 * 3 * 3 * 6
        np.testing.assert_allclose(found["again"], found["alignment"], atol=1e-12)
    (cell,) = load_activations(small_study, variant="modular", setting="regression", num_rules=8)
    rows = frame.query(
        "measure == 'again' and checkpoint == 'tail' and variant == 'modular' and num_rules == 8"
    )
    rows = rows[rows["setting"] == "regression"].set_index(["data_seed", "seed"])["value"]
    for place, member in enumerate(zip(cell.data_seeds, cell.seeds, strict=True)):
        expected = np.mean([alignment(matrix) for matrix in cell.evaluations("tail")[:, place]])
        assert rows[member] == pytest.approx(expected)


def test_options_are_columns(tmp_path):
    grid = {"settings": ["regression"], "rules": [2], "data_seeds": [0], "num_evaluations": 1}
    wide = ("modular", {"modules": 4, "temperature": 0.5})
    simulate(tmp_path, kinds=[("mha", {"search": "v2"})], variants=["monolithic", wide], **grid)
    simulate(tmp_path, kinds=[("rnn", {"target": "state"})], variants=["monolithic"], **grid)
    frame = load_results(tmp_path)
    found = frame.drop_duplicates([*CELL]).sort_values(["arch", "variant"])
    assert found[["arch", "task_options", "variant", "model_options", "num_modules"]].to_numpy().tolist() == [
        ["mha", "search=v2", "monolithic", "", 1],
        ["mha", "search=v2", "modular", "modules=4,temperature=0.5", 4],
        ["rnn", "target=state", "monolithic", "", 1],
    ]
    assert {"iid", "scale2", "len3", "len30_scale2"} < set(frame["condition"])


def test_the_name_of_a_folder_does_not_matter_but_what_a_study_keeps_for_itself_is_not_loaded(tmp_path):
    """Covers a damaged result that was set aside, its rerun, and an unfinished cell."""
    folder = one_cell(tmp_path / "a" / "b")
    before = load_results(tmp_path)
    folder.rename(tmp_path / "renamed")
    one_cell(tmp_path / PRIVATE / "damaged" / "cell~token")
    one_cell(tmp_path, num_rules=8, finished=False)
    after = load_results([tmp_path])
    pd.testing.assert_frame_equal(before.drop(columns="folder"), after.drop(columns="folder"))
    assert sorted(cell.is_finished for cell in find_cells(tmp_path)) == [False, True]


def test_history_carries_its_cell(small_study):
    history = load_history(small_study)
    assert list(history)[: len(CELL)] == list(CELL)
    assert sorted(history["step"].unique()) == [0, 1333, 2666, 4000]
    assert "error" in set(history.loc[history["setting"] == "classification", "measure"])


def test_the_error_of_a_model_that_diverged_is_unknown(tmp_path):
    """Earlier versions wrote the error of guessing beside a loss of NaN."""
    folder = one_cell(tmp_path)
    for name in ("results.csv", "history.csv"):
        frame = pd.read_csv(folder / name, keep_default_na=False)
        first = (frame["seed"] == 0) & (frame["condition"] == "iid")
        frame["value"] = frame["value"].mask(first & (frame["measure"] == "loss"), "")
        error = frame[frame["measure"] == "loss"].assign(measure="error", value=0.5)
        pd.concat([frame[frame["measure"] != "error"], error]).to_csv(folder / name, index=False)
    write_manifest(folder)
    for frame in (load_results(tmp_path), load_history(tmp_path)):
        error = frame[frame["measure"] == "error"]
        diverged = (error["seed"] == 0) & (error["condition"] == "iid")
        assert error["value"].isna().equals(diverged)
        assert 0 < diverged.mean() < 1


def test_activations_are_chosen_by_cell_and_checkpoint(small_study):
    (found,) = load_activations(small_study, setting="regression", variant="modular", num_rules=8)
    assert found.last.shape == (6, 8, 8)
    assert found.history.shape == (4, 6, 8, 8)
    assert (found.index(1, 1), found.index(9, 9)) == (3, None)
    with pytest.raises(ValueError, match="'rules' is not a property"):
        load_activations(small_study, rules=8)
    np.testing.assert_array_equal(found.at("last"), found.last)
    tail = found.history[3:].mean(axis=0)  # the last of three after step 0
    np.testing.assert_array_equal(found.at("tail"), tail)
    warm = replace(found, steps=found.steps + 1000)  # a warm start of 1,000 steps was not measured
    np.testing.assert_array_equal(warm.at("tail"), tail)
    with pytest.raises(ValueError, match="checkpoint='worst'"):
        found.at("worst")


def test_activations_of_a_place(tmp_path, monkeypatch):
    places = {"leaf": Place("leaf", 3, ("a", "b", "c")), "root": Place("root", 2)}
    monkeypatch.setattr(MLP, "places", lambda self, task: places)
    folder, leaf = one_cell(tmp_path), np.full([2, 3, 4], 0.25)
    same = {"last": {"leaf": leaf}, "best": {"leaf": leaf}, "history": {"leaf": leaf[None]}}
    write_activations(folder, **same, steps=[9], data_seeds=[0, 0], seeds=[0, 1])
    write_manifest(folder)
    (found,) = load_activations(tmp_path, "leaf")
    assert (found.place, found.rule_names, found.at("best").shape) == ("leaf", ("a", "b", "c"), (2, 3, 4))
    assert load_activations(tmp_path, "root") == load_activations(tmp_path) == []
    places["leaf"] = Place("leaf", 5)
    with pytest.raises(ValueError, match=r"last has shape \(2, 3, 4\); expected \(2, 5, 4\)"):
        load_activations(tmp_path, "leaf")


def test_folders_that_hold_nothing_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_results(tmp_path / "absent")
    (tmp_path / "config.json").write_text("{}")  # another program's
    with pytest.raises(FileNotFoundError, match="holds no results"):
        load_results(tmp_path)


def test_a_model_that_is_there_twice_is_refused(tmp_path):
    folder = one_cell(tmp_path / "a")
    shutil.copytree(folder, tmp_path / "b" / "copy")
    with pytest.raises(ValueError, match="count twice"):
        load_results(tmp_path)
    assert len(find_cells([tmp_path / "a", tmp_path / "a"])) == 1  # the same folder twice is one


def test_options_in_another_order_are_the_same_options(tmp_path):
    options = {"modules": 4, "k": 2}
    one = Cell(Task(), 32, "top_k", ((0, 0),), router=options)
    turned = replace(one, router=dict(reversed(options.items())))
    write_cell(tmp_path / "one", one, num_evaluations=1)
    write_cell(tmp_path / "two", replace(turned, members=((0, 0), (1, 0))), num_evaluations=1)
    write_cell(tmp_path / "three", replace(turned, members=((1, 0),)), num_evaluations=1)
    with pytest.raises(ValueError, match="hold the same model"):
        find_cells([tmp_path / "one", tmp_path / "two"])
    words = (
        r"^top_k has the same options in two orders, modules=4,k=2 and k=2,modules=4, and counts as two var"
    )
    with pytest.warns(UserWarning, match=words):
        assert len(find_cells([tmp_path / "one", tmp_path / "three"])) == 2


def test_results_that_contradict_their_config_are_refused(tmp_path):
    change_config(one_cell(tmp_path), "cell", "width", to=64)
    with pytest.raises(ValueError, match="has width=32, but its config has 64"):
        load_results(tmp_path)


def test_a_family_that_is_not_loaded_is_named(tmp_path):
    change_config(one_cell(tmp_path), "cell", "task", "arch", to="trees")
    with pytest.raises(ValueError, match=r"family 'trees', which is not registered .* --plugin="):
        find_cells(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace(",value\n", ",score\n", 1), "has the columns .*score, expected"),
        (lambda text: text + text.splitlines()[1] + "\n", "a value twice"),
    ],
)
def test_a_damaged_table_names_its_file(change, words, tmp_path):
    path = one_cell(tmp_path) / "results.csv"
    path.write_text(change(path.read_text()))
    write_manifest(path.parent)
    with pytest.raises(ValueError, match=rf"results\.csv .*{words}"):
        load_results(tmp_path)


def test_protocols_are_told_apart(tmp_path):
    one_cell(tmp_path)
    one_cell(tmp_path, variant="gt_modular", steps=8000)
    one_cell(tmp_path, variant="monolithic", steps=8000)
    protocols = load_results(tmp_path).drop_duplicates("variant").set_index("variant")["protocol"]
    assert protocols["gt_modular"] == protocols["monolithic"] != protocols["modular"]


def test_no_finished_cell_gives_an_empty_table(tmp_path):
    one_cell(tmp_path, finished=False)
    assert load_results(tmp_path).empty
    assert list(load_results(tmp_path))[: len(COLUMNS)] == list(COLUMNS)
    assert load_history(tmp_path).empty


def test_a_config_of_another_program_hides_no_cells(tmp_path):
    one_cell(tmp_path / "runs" / "study")
    (tmp_path / "runs" / "config.json").write_text('{"model": "mine"}')
    assert len(find_cells(tmp_path)) == 1


def test_links_to_folders_are_followed_and_no_cell_is_found_twice(tmp_path):
    folder = one_cell(tmp_path / "disk")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "linked").symlink_to(folder)
    (tmp_path / "runs" / "round").symlink_to(tmp_path / "runs")
    (tmp_path / "runs" / "twice").symlink_to(tmp_path / "disk")
    assert len(find_cells(tmp_path / "runs")) == 1
    assert len(load_results(tmp_path / "runs")["folder"].unique()) == 1


def test_a_measure_whose_file_has_changed_is_computed_anew(tmp_path, monkeypatch):
    folder = one_cell(tmp_path)
    said: dict = {"group": "diagnostic", "range": (0, 1), "perfect": None, "smaller_is_better": None}
    said |= {"description": "A number.", "axis_label": "Number"}
    sources = iter(["first", "first", "second", "second"])
    for name in ("results.csv", "history.csv"):
        frame = pd.read_csv(folder / name, keep_default_na=False)
        some = frame[frame["measure"] == "alignment"].assign(measure="of_plugin", value=0.25)
        pd.concat([frame, some]).to_csv(folder / name, index=False)
    change_config(folder, "measure_sources", to={"of_plugin": "first"})
    monkeypatch.setattr("modtf.results.load.hash_of_source", lambda _: next(sources))
    with forgotten(MEASURES):
        modtf.register_measure("of_plugin", **said)(lambda A: 0.5)
        same = load_results(tmp_path), load_history(tmp_path)
        with pytest.warns(UserWarning, match="have changed since a cell was trained: of_plugin. Their"):
            new = load_results(tmp_path)
        history = load_history(tmp_path)
    for frame in same:
        assert set(frame.loc[frame["measure"] == "of_plugin", "value"]) == {0.25}
    assert set(new.loc[new["measure"] == "of_plugin", "value"]) == {0.5}
    assert len(new) == len(same[0])
    assert "of_plugin" not in set(history["measure"])
    assert len(history) == (same[1]["measure"] != "of_plugin").sum()
