"""Streams, models, training and readers of damaged models reject invalid input; no code runs."""

import contextlib
import io
import json
import zipfile
from typing import Any

import h5py
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


def changed(saved, path, change, entry="config.json"):
    """A copy of the archive with another config, or weights."""
    with zipfile.ZipFile(saved) as archive, zipfile.ZipFile(path, "w") as copy:
        for name in archive.namelist():
            content = archive.read(name)
            if name == entry:
                content = change(content.decode() if name == "config.json" else content)
            copy.writestr(name, content)
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
    {"module": "subprocess", "class_name": "Popen", "config": {}, "registered_name": "subprocess>Popen"},
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


def test_a_layer_that_names_a_function_of_python_runs_none(tmp_path):
    """Keras 3.8 runs this command in safe mode."""
    layer = keras.layers.Lambda(len)
    keras.Sequential([keras.Input([1]), keras.layers.Identity(name="x")]).save(tmp_path / "x.keras")
    command = {"cmd": f"touch {tmp_path / 'ran'}"}
    function = {"module": "pydoc", "class_name": "function", "config": "pipepager"}

    def change(text):
        config = json.loads(text)
        changed_layer = {**layer.get_config(), "function": function, "arguments": command}
        config["config"]["layers"][1] |= {"class_name": "Lambda", "config": changed_layer}
        return json.dumps(config)

    path = changed(tmp_path / "x.keras", tmp_path / "y.keras", change)
    with pytest.raises(ValueError, match=r"y\.keras cannot be read as a model"):
        modtf.load_model(path)
    assert not (tmp_path / "ran").exists()


WEIGHT = "decoder/first/vars/0"


def external(file, secret):
    file.create_dataset(WEIGHT, (1, 3, 12), "f4", external=[(str(secret), 0, 144)])


def virtual(file, secret):
    layout = h5py.VirtualLayout((1, 3, 12), "f4")
    layout[:] = h5py.VirtualSource(str(secret), "x", (1, 3, 12))
    file.create_virtual_dataset(WEIGHT, layout)


def linked(file, secret):
    file[WEIGHT] = h5py.ExternalLink(str(secret), "x")


def linked_group(file, secret):
    del file["decoder"]
    file["decoder"] = h5py.ExternalLink(str(secret), "decoder")


def soft(file, secret):
    file[WEIGHT], file["vars/there"] = h5py.SoftLink("/vars/there"), h5py.ExternalLink(str(secret), "x")


def huge(file, _):
    file.create_dataset(WEIGHT, (1, 3, 12 << 32), "f4", chunks=(1, 3, 12))


ATTACKS = {external: "outside", virtual: "outside", linked: "a link", linked_group: "a link", soft: "a link",
           huge: "unpack"}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
@pytest.mark.parametrize("entry", ["model.weights.h5", "assets/x.txt"])
def test_weights_outside_the_archive_are_refused_before_keras_reads(
    saved, tmp_path, monkeypatch, attack, entry
):
    with h5py.File(tmp_path / "secret", "w") as secret:
        secret["x"] = secret["decoder/first/vars/0"] = np.ones((1, 3, 12), "f4")

    def change(content):
        weights = io.BytesIO(content)
        with h5py.File(weights, "r+") as file:
            del file[WEIGHT]
            attack(file, tmp_path / "secret")
        return weights.getvalue()

    path = changed(saved, tmp_path / "x.keras", change, "model.weights.h5")
    if entry != "model.weights.h5":
        with zipfile.ZipFile(path) as archive:
            weights = archive.read("model.weights.h5")
        path = changed(saved, path.with_name("y.keras"), str)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(entry, weights)
    monkeypatch.setattr(keras.saving, "load_model", lambda *_, **__: pytest.fail("Keras opened it"))
    with pytest.raises(ValueError, match=rf"x?y?\.keras cannot be read as a model .*{ATTACKS[attack]}"):
        modtf.load_model(path)


def test_other_files_than_archives_are_refused(saved, tmp_path):
    """Keras reads HDF5 by an older reader, also one that a zip file follows."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = 1
    with (tmp_path / "x.h5").open("ab") as file:
        file.write(saved.read_bytes())
    assert zipfile.is_zipfile(tmp_path / "x.h5")
    (tmp_path / "x.keras").mkdir()
    for name, words in {"x.h5": "not an archive .keras", "x.keras": "expected a regular file"}.items():
        with pytest.raises(ValueError, match=words):
            modtf.load_model(tmp_path / name)
