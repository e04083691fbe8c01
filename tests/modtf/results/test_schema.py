import numpy as np
import pandas as pd
import pytest

from modtf.results.schema import COLUMNS, conform, write_activations, write_history, write_results

ROW = {
    "arch": "mha",
    "setting": "regression",
    "task_options": "search=v1",
    "num_rules": 8,
    "num_modules": 8,
    "width": 32,
    "variant": "modular",
    "model_options": "",
    "data_seed": 0,
    "seed": 1,
    "num_parameters": 30_000,
    "steps": 100,
    "checkpoint": "last",
    "measure": "loss",
    "condition": "len30_scale2",
    "value": 0.5,
}


def test_columns_come_in_order_with_their_dtypes(tmp_path):
    shuffled = pd.DataFrame([ROW])[sorted(ROW)]
    path = write_results(tmp_path, shuffled)
    assert path.read_text().splitlines()[0] == ",".join(COLUMNS)
    assert list(conform(shuffled).dtypes.astype(str)) == [
        str(pd.Series(dtype=d).dtype) for d in COLUMNS.values()
    ]


def test_options_may_be_missing():
    frame = conform(pd.DataFrame([ROW | {"task_options": None, "model_options": np.nan}]))
    assert frame[["task_options", "model_options"]].to_numpy().tolist() == [["", ""]]


def test_nothing_else_is_left_in_the_folder(tmp_path):
    write_results(tmp_path, pd.DataFrame([ROW]))
    assert [p.name for p in tmp_path.iterdir()] == ["results.csv"]


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = write_results(tmp_path, pd.DataFrame([ROW]))
    before = path.read_text()
    with pytest.raises(ValueError, match="value"):
        write_results(tmp_path, pd.DataFrame([ROW]).drop(columns="value"))
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pd.DataFrame([ROW | {"extra": 1}]), "unknown extra"),
        (pd.DataFrame([ROW]).drop(columns="seed"), "missing seed"),
        (pd.DataFrame([ROW | {"width": "wide"}]), "wrong kind"),
        (pd.DataFrame([ROW, ROW | {"value": 0.7}]), "twice"),
        (pd.DataFrame([ROW, ROW | {"num_parameters": 7}]), "twice"),
    ],
)
def test_a_table_that_is_none_is_refused(frame, words):
    with pytest.raises(ValueError, match=words):
        conform(frame)


def test_history_and_activations_are_written(tmp_path):
    row = {"step": 1, "data_seed": 0, "seed": 0, "measure": "loss", "condition": "iid", "value": 1.0}
    assert write_history(tmp_path, pd.DataFrame([row])).name == "history.csv"
    matrix = np.full((1, 2, 2), 0.5)
    path = write_activations(
        tmp_path, last=matrix, best=matrix, history=matrix[None], steps=[1], data_seeds=[0], seeds=[0]
    )
    with np.load(path) as file:
        assert file["history"].shape == (1, 1, 2, 2)
