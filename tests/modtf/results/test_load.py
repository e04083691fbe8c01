import json
import shutil

import numpy as np
import pytest

from modtf.results import find_cells, find_missing, load_activations, load_history, load_results
from modtf.results.schema import CELL, COLUMNS
from modtf.analysis.study import select


def one_cell(simulator, out, **changes):
    cell = {
        "arch": "mlp",
        "setting": "regression",
        "search": "",
        "num_rules": 2,
        "width": 32,
        "variant": "modular",
    }
    training = {"steps": 4000} | changes.pop("training", {})
    members = changes.pop("members", [(0, 0), (0, 1)])
    finished = changes.pop("finished", True)
    return simulator.write_cell(out, cell | changes, members, simulator.World(), training, 2, finished)


def test_all_finished_cells_are_one_tidy_table(small_study):
    frame = load_results(small_study)
    assert list(frame)[: len(COLUMNS)] == list(COLUMNS)
    assert len(frame.drop_duplicates([*CELL, "data_seed", "seed"])) == 2 * 3 * 4 * 6
    assert frame["seq_len"].isna().all()
    assert (frame["search"] == "").all()
    assert frame["protocol"].nunique() == 1


def test_values_survive_the_file_exactly(simulator, tmp_path):
    folder = one_cell(simulator, tmp_path)
    text = (folder / "results.csv").read_text().splitlines()
    values = [float(line.rsplit(",", 1)[1]) for line in text[1:]]
    np.testing.assert_array_equal(load_results(tmp_path)["value"], values)


def test_the_name_of_a_folder_does_not_matter(simulator, tmp_path):
    folder = one_cell(simulator, tmp_path / "a" / "b")
    before = load_results(tmp_path)
    folder.rename(tmp_path / "renamed")
    after = load_results([tmp_path / "renamed"])
    assert before.drop(columns="folder").equals(after.drop(columns="folder"))


def test_an_unfinished_cell_is_missing_not_loaded(simulator, tmp_path):
    one_cell(simulator, tmp_path)
    one_cell(simulator, tmp_path, num_rules=8, finished=False)
    assert set(load_results(tmp_path)["num_rules"]) == {2}
    missing = find_missing(tmp_path).set_index(["num_rules", "variant"])["status"]
    assert missing[8, "modular"] == "unfinished"
    assert missing[2, "monolithic"] == "absent"
    assert (2, "modular") not in missing


def test_missing_models_of_a_cell_are_counted(simulator, tmp_path):
    one_cell(simulator, tmp_path, members=[(0, 0), (1, 0), (2, 0)])
    one_cell(simulator, tmp_path, variant="gt_modular", members=[(0, 0)])
    missing = find_missing(tmp_path, variants=["modular", "gt_modular"])
    assert missing[["variant", "status"]].to_numpy().tolist() == [["gt_modular", "fewer models"]]
    assert missing["detail"].iloc[0].startswith("2 of 3")


def test_nothing_is_missing_from_a_whole_grid(small_study):
    assert find_missing(small_study).empty


def test_history_carries_its_cell(small_study):
    history = load_history(small_study)
    assert set(CELL) < set(history)
    assert sorted(history["step"].unique()) == [1333, 2666, 4000]
    assert "error" in set(history.loc[history["setting"] == "classification", "measure"])


def test_activations_are_chosen_by_cell(small_study):
    (found,) = load_activations(small_study, setting="regression", variant="modular", num_rules=8)
    assert found.last.shape == (6, 8, 8)
    assert found.history.shape == (3, 6, 8, 8)
    assert found.index(1, 1) == 3
    assert found.index(9, 9) is None
    with pytest.raises(ValueError, match="no 'rules'"):
        load_activations(small_study, rules=8)


def test_folders_that_hold_nothing_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        load_results(tmp_path / "absent")
    (tmp_path / "config.json").write_text("{}")  # another program's
    with pytest.raises(FileNotFoundError, match="holds no results"):
        load_results(tmp_path)


def test_a_model_that_is_there_twice_is_refused(simulator, tmp_path):
    folder = one_cell(simulator, tmp_path / "a")
    shutil.copytree(folder, tmp_path / "b" / "copy")
    with pytest.raises(ValueError, match="count twice"):
        load_results(tmp_path)
    assert len(find_cells([tmp_path / "a", tmp_path / "a"])) == 1  # the same folder twice is one


def test_results_that_contradict_their_config_are_refused(simulator, tmp_path):
    folder = one_cell(simulator, tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["cell"]["width"] = 64
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="width"):
        load_results(tmp_path)


def test_a_damaged_config_names_its_file(simulator, tmp_path):
    folder = one_cell(simulator, tmp_path)
    (folder / "config.json").write_text('{"cell": ')
    with pytest.raises(ValueError, match=r"config\.json cannot be read"):
        find_cells(tmp_path)


def test_two_protocols_are_not_mixed(simulator, tmp_path):
    one_cell(simulator, tmp_path)
    one_cell(simulator, tmp_path, variant="gt_modular", training={"steps": 8000})
    frame = load_results(tmp_path)
    with pytest.raises(ValueError, match="2 different ways"):
        select(frame)
    protocol = frame.loc[frame["variant"] == "modular", "protocol"].iloc[0]
    assert set(select(frame, [protocol])["variant"]) == {"modular"}
    with pytest.raises(ValueError, match="protocol='unknown'"):
        select(frame, ["unknown"])


def test_no_finished_cell_gives_an_empty_table(simulator, tmp_path):
    one_cell(simulator, tmp_path, finished=False)
    assert load_results(tmp_path).empty
    assert list(load_results(tmp_path))[: len(COLUMNS)] == list(COLUMNS)
    assert load_history(tmp_path).empty
