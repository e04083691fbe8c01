"""Truncated, changed or foreign results are rejected with the file's name, or read correctly."""

import json
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hostile import anything, damaged, few, survives
from hypothesis import given
from hypothesis import strategies as st

import modtf
from modtf.results import find_cells, load_activations, load_history, load_results
from modtf.results.schema import ACTIVATION, CONFIG, HISTORY, RESULTS

pytestmark = pytest.mark.filterwarnings("ignore:.* is damaged and left out")

READERS: dict[str, list[Callable[..., Any]]] = {
    CONFIG: [load_results, find_cells, modtf.Study.read],
    RESULTS: [load_results, modtf.Study.read],
    HISTORY: [load_history],
    ACTIVATION: [load_activations],
}


OTHERS = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda values: st.lists(values) | st.dictionaries(st.sampled_from(["cell", "task", "training"]), values),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def one_cell(small_study, tmp_path_factory):
    """A folder with a cell that has all files."""
    found = next(cell for cell in find_cells(small_study) if cell.has_history and cell.has_activation)
    return shutil.copytree(found.path, tmp_path_factory.mktemp("cells") / "ünï çødé folder")


@pytest.mark.parametrize(
    ("name", "reader"), [(n, reader) for n, readers in READERS.items() for reader in readers]
)
@few
@given(data=st.data())
def test_changed_bytes(one_cell, name, reader, data):
    path = one_cell / name
    whole = path.read_bytes()
    others = OTHERS.map(lambda value: json.dumps(value).encode()) if name == CONFIG else st.nothing()
    path.write_bytes(data.draw(damaged(whole) | others))
    try:
        survives(lambda: reader(one_cell), str(one_cell))
    finally:
        path.write_bytes(whole)


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """Work in an empty folder, so that a relative path finds no file."""
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)


def test_objects_are_never_unpickled(one_cell, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (tmp_path.joinpath("ran").touch, ())

    folder = shutil.copytree(one_cell, tmp_path / "cell")
    np.savez(folder / ACTIVATION, last=np.array([Bomb()], object))
    with pytest.warns(UserWarning, match=r"activation\.npz cannot be read"):
        assert not load_activations(folder)
    assert not (tmp_path / "ran").exists()


SHAPES: dict[str, Any] = {"last": np.zeros(3), "best": np.zeros((2, 3)), "history": np.zeros((1, 9, 2, 2))}
SHAPES |= {"steps": np.zeros((2, 2), int), "data_seeds": np.arange(99), "seeds": np.zeros(0, int)}


@pytest.mark.parametrize("name", SHAPES)
def test_activations_of_another_version(one_cell, tmp_path, name):
    folder = shutil.copytree(one_cell, tmp_path / "cell")
    with np.load(folder / ACTIVATION) as whole:
        arrays = dict(whole)
    np.savez(folder / ACTIVATION, **{**arrays, name: SHAPES[name]})
    with pytest.warns(UserWarning, match=r"activation\.npz cannot be read \(\w+ has shape .* expected"):
        assert not load_activations(folder)


@few
@given(folder=anything)
@pytest.mark.parametrize("reader", [load_results, load_history, load_activations, modtf.Study.read])
def test_folders(empty_folder, reader, folder):
    found = survives(lambda: reader(folder))
    assert found is None or len(found) == 0


@few
@given(value=anything)
@pytest.mark.parametrize("name", ["results", "checkpoint", "protocols", "level"])
def test_study(one_cell, name, value):
    given_ = {} if name == "results" else {"results": load_results(one_cell)}
    survives(lambda: modtf.Study(**{**given_, name: value}), name.removesuffix("s"))
