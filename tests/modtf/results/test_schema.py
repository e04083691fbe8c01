"""The files of a cell are written as they are read: columns, numbers to the last bit, matrices by place."""

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from modtf.results import COLUMNS, write_activations, write_history, write_results
from modtf.results.schema import conform, read_activations, read_values

TEXTS = {"arch": "mha", "setting": "regression", "task_options": "search=v1", "variant": "modular"}
TEXTS |= {"model_options": "", "checkpoint": "last", "measure": "loss", "condition": "len30", "place": ""}
NUMBERS = {"num_rules": 8, "num_modules": 8, "width": 32, "data_seed": 0, "seed": 1, "steps": 100}
ROW = {**TEXTS, **NUMBERS, "num_parameters": 30_000, "value": 0.5}
ONE = {"steps": (1,), "data_seeds": (1,), "seeds": (1,)}


def test_columns_come_in_order_with_their_dtypes(tmp_path):
    shuffled = pd.DataFrame([ROW])[sorted(ROW)]
    path = write_results(tmp_path, shuffled)
    assert path.read_text().splitlines()[0] == ",".join(COLUMNS)
    dtypes = [str(pd.Series(dtype=d).dtype) for d in COLUMNS.values()]
    assert list(conform(shuffled).dtypes.astype(str)) == dtypes


def test_options_and_places_may_be_missing():
    old = pd.DataFrame([ROW | {"task_options": None, "model_options": np.nan}]).drop(columns="place")
    assert conform(old)[["task_options", "model_options", "place"]].to_numpy().tolist() == [["", "", ""]]
    text = old.to_csv(index=False)
    assert read_values(io.StringIO(text))["place"].tolist() == [""]
    places = conform(pd.DataFrame([ROW, ROW | {"place": "root", "num_modules": 3}]))
    assert places["place"].tolist() == ["", "root"]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pd.DataFrame([ROW | {"extra": 1}]), "unknown extra"),
        (pd.DataFrame([ROW]).drop(columns="seed"), "missing seed"),
        (pd.DataFrame([ROW | {"width": "wide"}]), "wrong type"),
        (pd.DataFrame([ROW | {"data_seed": 0.9}]), "wrong type: data_seed must hold whole numbers"),
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
    same: dict[str, Any] = {"steps": [1], "data_seeds": [0], "seeds": [0]}
    write_activations(tmp_path, last=matrix, best=matrix, history=matrix[None], **same)
    found = read_activations(tmp_path)
    shapes = {name: array.shape for name, array in found.items()}
    assert shapes == {**dict.fromkeys(["last", "best"], (1, 2, 2)), "history": (1, 1, 2, 2), **ONE}
    by_place = {"a": matrix, "b_c": np.eye(3)[None]}
    history = {place: value[None] for place, value in by_place.items()}
    write_activations(tmp_path, last=by_place, best=by_place, history=history, **same)
    found = read_activations(tmp_path)
    assert {"last_a", "best_b_c", "history_a", "steps"} < set(found)
    assert found["history_b_c"].shape == (1, 1, 3, 3)


@given(arrays.arrays(np.float64, st.integers(1, 20), elements=st.floats(allow_nan=True, width=64)))
def test_numbers_are_the_same_to_the_last_bit(values):
    text = pd.DataFrame({"value": values}).to_csv(index=False)
    np.testing.assert_array_equal(read_values(io.StringIO(text))["value"].to_numpy(), values)


def test_an_empty_text_is_no_missing_value():
    text = pd.DataFrame({"model_options": ["", "nan"], "value": [np.nan, 1.5]}).to_csv(index=False)
    found = read_values(io.StringIO(text), {"model_options": "category", "value": "float64"})
    assert found["model_options"].tolist() == ["", "nan"]
    assert np.isnan(found["value"][0])
    assert found["value"][1] == 1.5
