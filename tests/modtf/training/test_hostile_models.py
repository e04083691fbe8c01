"""Streams, models and training refuse what makes no sense, as do readers of damaged models; no code runs."""

import inspect
import pickle
import zipfile

import keras
import pytest
from hostile import anything, few, survives
from hypothesis import given
from hypothesis import strategies as st

import modtf
from modtf.task import Task

TASK = Task(num_rules=3)


@pytest.fixture(scope="module")
def model():
    return modtf.build(TASK, "modular", 3)


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "ünï çødé model.keras"
    model.save(path)
    return path


@pytest.mark.parametrize("name", inspect.signature(modtf.stream).parameters)
@few
@given(value=anything)
def test_stream(name, value):
    given_ = {"task": TASK, "batch_size": 2, name: value}
    survives(lambda: modtf.stream(**given_))


@pytest.mark.parametrize("name", ["task", "variant", "width", "seed", "router", "architecture", "nonsense"])
@few
@given(value=anything)
def test_build(name, value):
    given_ = {"task": TASK, "variant": "modular", "width": 3, name: value}
    survives(lambda: modtf.build(**given_))


@pytest.mark.parametrize(
    "name", ["task", "steps", "seed", "batch_size", "learning_rate", "clipnorm", "evaluations", "precision"]
)
@few
@given(value=anything)
def test_train(model, name, value):
    """Up to where data and program are made."""
    given_ = {"task": TASK, "steps": 1, "batch_size": 2, name: value}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("keras.Model.fit", lambda *_, **__: None)
        survives(lambda: modtf.train(model, **given_, verbose=False))


@few
@given(data=st.data())
def test_a_damaged_model(saved, tmp_path_factory, data):
    content = bytearray(saved.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    for place in data.draw(st.lists(st.integers(0, max(0, len(content) - 1)), max_size=4)):
        if content:
            content[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "x.keras"
    path.write_bytes(content)
    survives(lambda: modtf.load_model(path), str(path))


@pytest.mark.parametrize("content", [b"", b"{}", pickle.dumps({"a": 1}), b"\x89HDF\r\n\x1a\n", b"PK\x03\x04"])
def test_what_is_no_model(tmp_path, content):
    path = tmp_path / "x.keras"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.keras cannot be read as a model"):
        modtf.load_model(path)
    with pytest.raises(ValueError, match="cannot be read as a model"):
        modtf.load_model(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"There is no file .*none\.keras"):
        modtf.load_model(tmp_path / "none.keras")


def changed(saved, path, change):
    """A copy of the archive with another config."""
    with zipfile.ZipFile(saved) as archive, zipfile.ZipFile(path, "w") as copy:
        for name in archive.namelist():
            content = archive.read(name)
            copy.writestr(name, change(content.decode()) if name == "config.json" else content)
    return path


def test_another_version(saved, tmp_path):
    for old, new in (('"class_name": "mlp"', '"class_name": "later"'), ('"width": 3', '"widths": 3')):
        path = changed(saved, tmp_path / "x.keras", lambda text, old=old, new=new: text.replace(old, new))
        with pytest.raises(ValueError, match="cannot be read as a model"):
            modtf.load_model(path)


def test_code_is_never_run(tmp_path):
    keras.Sequential([keras.Input([1]), keras.layers.Lambda(lambda x: 2 * x)]).save(tmp_path / "x.keras")
    with pytest.raises(ValueError, match=r"cannot be read as a model .*lambda"):
        modtf.load_model(tmp_path / "x.keras")
