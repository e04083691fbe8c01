"""Streams, models, training and readers of damaged models reject invalid input; no code runs."""

import contextlib
import inspect
import json
import pickle
import zipfile
from typing import Any

import keras
import numpy as np
import pytest
from hostile import anything, damaged, few, survives
from hypothesis import assume, given
from hypothesis import strategies as st

import modtf
from modtf.task import Task

TASK = Task(num_rules=3)


@pytest.fixture(scope="module")
def model():
    return modtf.build(TASK, "modular", 3)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "ünï çødé model.keras"
    modtf.build(TASK, "modular", 3).save(path)
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
    assume(not (name == "width" and isinstance(value, int) and 10**3 < value < 10**7))  # it may just fit
    given_ = {"task": TASK, "variant": "modular", "width": 3, name: value}
    survives(lambda: modtf.build(**given_))


def test_a_width_of_numpys_own_does_not_overflow():
    width: Any = np.int8(100)
    assert modtf.build(TASK, width=width).num_parameters == modtf.build(TASK, width=100).num_parameters


@pytest.mark.parametrize("name", inspect.signature(modtf.train).parameters)
@few
@given(value=anything)
def test_train(model, name, value):
    """Up to where data and program are made."""
    given_ = {"model": model, "task": TASK, "steps": 1, "batch_size": 2, "verbose": False, name: value}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("keras.Model.fit", lambda *_, **__: None)
        survives(lambda: modtf.train(**given_))


REFUSED: dict[str, list[Any]] = {
    "learning_rate": [0, 1e308, float("nan")], "clipnorm": [0, 1e-300, 1e308], "steps": [10**30, 2**63],
    "devices": [["GPU:7"], ["nope"], "CPU:0"], "jit_compile": ["yes", 2, None], "evaluations": [10**30],
    "steps_per_execution": [10**30, 0], "label": [5], "verbose": ["no", 2],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in REFUSED.items() for v in values])
def test_what_no_training_can_do(model, name, value):
    with pytest.raises(ValueError, match=rf"{name}.* is not (valid|known); expected"):
        modtf.train(**{"model": model, "task": TASK, "steps": 1, "verbose": False, name: value})


@pytest.mark.parametrize("arch", ["mlp", "mha", "rnn"])
def test_more_rules_than_fit(arch):
    task = Task(arch, num_rules=10**12)
    for call in (lambda: modtf.build(task, width=32), lambda: modtf.stream(task, batch_size=2)):
        with pytest.raises(ValueError, match=r"cannot fit: it needs at least .*fewer rules"):
            call()


@few
@given(data=st.data())
def test_a_damaged_model(saved, tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "x.keras"
    path.write_bytes(data.draw(damaged(saved.read_bytes())))
    survives(lambda: modtf.load_model(path), str(path))


@few
@given(path=anything)
def test_load_model(path):
    survives(lambda: modtf.load_model(path))


def test_what_is_no_model(tmp_path):
    path = tmp_path / "x.keras"
    for content in (b"", b"{}", pickle.dumps({"a": 1}), b"\x89HDF\r\n\x1a\n", b"PK\x03\x04"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.keras cannot be read as a model"):
            modtf.load_model(path)
    with pytest.raises(ValueError, match="cannot be read as a model"):
        modtf.load_model(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"The file .*none\.keras' does not exist"):
        modtf.load_model(tmp_path / "none.keras")


def changed(saved, path, change):
    """A copy of the archive with another config."""
    with zipfile.ZipFile(saved) as archive, zipfile.ZipFile(path, "w") as copy:
        for name in archive.namelist():
            content = archive.read(name)
            copy.writestr(name, change(content.decode()) if name == "config.json" else content)
    return path


def test_another_version(saved, tmp_path):
    assert modtf.load_model(changed(saved, tmp_path / "x.keras", str)).width == 3  # as it was, it is read
    for old, new in (("modtf>mlp", "modtf>later"), ('"width": 3', '"widths": 3'), ('"modular"', '"laterly"')):
        path = changed(saved, tmp_path / "x.keras", lambda text, old=old, new=new: text.replace(old, new))
        with pytest.raises(ValueError, match="cannot be read as a model"):
            modtf.load_model(path)


def test_one_that_unpacks_to_far_more_than_it_is(saved, tmp_path, monkeypatch):
    path = changed(saved, tmp_path / "x.keras", str)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("assets/zeros", bytes(1 << 26))
    monkeypatch.setattr("modtf.files.LARGE", 1 << 25)
    with pytest.raises(ValueError, match=r"cannot be read as a model \(.*x\.keras would unpack from"):
        modtf.load_model(path)


CALLS: list[dict[str, Any]] = [
    {"module": "builtins", "class_name": "function", "config": "exec", "registered_name": "function"},
    {"module": "builtins", "class_name": "exec", "config": {}, "registered_name": "exec"},
    {"module": "os", "class_name": "system", "config": {}, "registered_name": "os>system"},
    {"class_name": "__lambda__", "config": {"value": "4wA="}},
    {"module": "keras.layers", "class_name": "Lambda", "config": {"function": "exec"}},
    {"module": "keras.layers", "class_name": "TFSMLayer", "config": {"filepath": "/tmp"}},
]


@pytest.mark.parametrize("call", CALLS)
def test_a_config_that_names_code_runs_none(saved, tmp_path, call):
    """In the place of the whole model, its precision, and how it was compiled. Nor does a lambda run."""
    keras.Sequential([keras.Input([1]), keras.layers.Lambda(lambda x: 2 * x)]).save(tmp_path / "x.keras")
    with pytest.raises(ValueError, match=r"cannot be read as a model .*lambda"):
        modtf.load_model(tmp_path / "x.keras")
    whole = json.loads(zipfile.ZipFile(saved).read("config.json"))
    ran = tmp_path / "ran"
    if isinstance(call["config"], dict):
        code = f"import pathlib; pathlib.Path({str(ran)!r}).touch()"
        call = {**call, "config": {**call["config"], "arguments": [code], "args": [code], "name": code}}
    names = {name: call.get(name) for name in ("module", "class_name", "registered_name")}
    for config in (
        call,
        {**whole, **names},
        {**whole, "config": {**whole["config"], "dtype": call}},
        {**whole, "compile_config": {"optimizer": call, "loss": call}},
    ):
        path = changed(saved, tmp_path / "x.keras", lambda _, new=config: json.dumps(new))
        with contextlib.suppress(ValueError):  # or the model as it was, where Keras reads past it
            assert type(modtf.load_model(path)).__name__ == "ModularMLP"
        assert not ran.exists()
