"""Invalid cells are not started; cells with changed files are recognised."""

import inspect
import json

import pytest
from hostile import BeginsError, anything, begin, damaged, few, survives
from hypothesis import given
from hypothesis import strategies as st

import modtf
from modtf.engines.cell import run_cell
from modtf.engines.state import state_of, write_error
from modtf.results.manifest import MANIFEST, write_manifest
from modtf.results.schema import CONFIG, ERROR, HISTORY, RESULTS


@pytest.mark.parametrize("name", inspect.signature(run_cell).parameters)
@few
@given(value=anything)
def test_run_cell(small_cell, tmp_path_factory, name, value):
    """Runs until training would begin. Nothing is written if it does not begin."""
    out = tmp_path_factory.mktemp("out")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(out)
        patched.setattr("keras.Model.fit", begin)
        patched.setattr("modtf.evaluation.evaluator.Evaluator.run", begin)
        try:
            survives(lambda: modtf.run_cell(**{"cell": small_cell, "out": "cells", name: value}))
        except BeginsError:
            return
    assert not list(out.rglob(RESULTS))


@pytest.mark.parametrize(
    ("name", "value"), [("verbose", "no"), ("wait", 5), ("strategy", ("GPU:7",)), ("strategy", "no")]
)
def test_what_no_run_can_do(small_cell, tmp_path, name, value):
    with pytest.raises(ValueError, match=rf"({name}=|devices: ).* is (not valid|not known); expected"):
        modtf.run_cell(small_cell, tmp_path, **{name: value})
    assert not list(tmp_path.iterdir())


@pytest.fixture
def folder(small_cell, tmp_path):
    """Return a small finished cell."""
    made = tmp_path / small_cell.folder
    made.mkdir()
    for name in (RESULTS, HISTORY):
        (made / name).write_text("step,data_seed,seed,measure,condition,value\n0,0,0,loss,iid,1\n")
    (made / CONFIG).write_text(json.dumps(small_cell.to_dict()))
    write_manifest(made)
    write_error(made, {"message": "it failed"})
    return made


OTHERS = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda values: (
        st.lists(values) | st.dictionaries(st.sampled_from(["files", "version", RESULTS, "size"]), values)
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("name", [MANIFEST, RESULTS, CONFIG, ERROR])
@few
@given(data=st.data())
def test_the_state_of_damaged_cells(small_cell, folder, name, data):
    files = {path: path.read_bytes() for path in folder.iterdir()}
    whole = files[folder / name]
    content = data.draw(damaged(whole) | OTHERS.map(lambda value: json.dumps(value).encode()))
    hidden = data.draw(st.sampled_from([None, RESULTS, MANIFEST]))
    (folder / name).write_bytes(content)
    if hidden:
        (folder / hidden).unlink()
    try:
        found = survives(lambda: state_of(small_cell, folder.parent), small_cell.folder)
        assert found is None or found.name in ("finished", "failed", "damaged", "open")
        if name in (RESULTS, CONFIG) and hidden is None and content != whole:
            assert found.name == "damaged"
    finally:
        for path, before in files.items():
            path.write_bytes(before)
