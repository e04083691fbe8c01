"""Streams, models, training and readers of damaged models reject invalid input; no code runs."""

import contextlib
import json
import zipfile
from typing import Any

import keras
import numpy as np
import pytest

import modtf
from modtf.tasks.task import Task

TASK = Task(num_rules=3)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "ünï çødé model.keras"
    modtf.build(TASK, "modular", 3).save(path)
    return path


def test_a_width_of_numpys_own_does_not_overflow():
    width: Any = np.int8(100)
    assert modtf.build(TASK, width=width).num_parameters == modtf.build(TASK, width=100).num_parameters


@pytest.mark.parametrize("arch", ["mlp", "mha", "rnn"])
def test_more_rules_than_fit(arch):
    task = Task(arch, num_rules=10**12)
    for call in (lambda: modtf.build(task, width=32), lambda: modtf.stream(task, batch_size=2)):
        with pytest.raises(ValueError, match=r"cannot fit: it needs at least .*fewer rules"):
            call()


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
