"""`.keras` files: the model that was saved comes back, also in a process that knows nothing yet."""

import subprocess
import sys

import keras
import numpy as np
import pytest

import modtf
from modtf.models.build import build

WIDTH = 5

FRESH = """
import sys
import numpy as np
import modtf
assert "keras" not in sys.modules
for name in sys.argv[1:]:
    model = modtf.load_model(name + ".keras")
    saved = dict(np.load(name + ".npz"))
    outputs = model({key: saved[key] for key in ("inputs", "rule")})
    for key in ("target", "activation"):
        np.testing.assert_array_equal(outputs[key], saved[key])
print("same")
"""


@pytest.fixture(scope="module")
def left_over(tmp_path_factory):
    """A folder, and the names of the files in it, that the test of a fresh process reads."""
    return tmp_path_factory.mktemp("saved"), []


def round_trip(model, features, path):
    """Saves and loads a model that no longer has its initial weights; compares; returns its outputs."""
    for variable in model.trainable_variables:
        variable.assign(variable + 0.25)
    model.save(path)
    loaded = keras.saving.load_model(path)
    assert type(loaded) is type(model)
    assert loaded.get_config() == model.get_config()
    outputs, expected = loaded(features), model(features)
    for key, value in expected.items():
        np.testing.assert_array_equal(outputs[key], value)
    return {key: value.numpy() for key, value in expected.items()}


def test_population(kind, variant, random_batch, tmp_path):
    (task, options), (name, router) = kind, variant
    features, _ = random_batch([task] * 2, batch=3)
    model = build([task] * 2, name, WIDTH, [3, 4], router=router, **options)
    round_trip(model, features, tmp_path / "model.keras")


def test_a_router_of_ones_own(arch, plugins, random_batch, tmp_path):
    task = modtf.Task(arch, num_rules=3)
    router = {"modules": 6, "strength": 3, "temperature": 0.5}
    model = build([task] * 2, "plugin_even", WIDTH, [3, 4], router=router)
    round_trip(model, random_batch([task] * 2, batch=3)[0], tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert (loaded.router.strength, loaded.router.temperature, loaded.num_modules) == (3, 0.5, 6)


def test_alone(kind, random_batch, left_over):
    task, options = kind
    folder, names = left_over
    features, _ = random_batch([task], batch=3)
    features = {name: value[:, 0] for name, value in features.items()}
    names.append(str(folder / str(len(names))))
    outputs = round_trip(build(task, "modular", WIDTH, 3, **options), features, f"{names[-1]}.keras")
    np.savez(f"{names[-1]}.npz", **features, **outputs)


def test_a_fresh_process_loads_them(left_over):
    _, names = left_over
    result = subprocess.run(
        [sys.executable, "-c", FRESH, *names], capture_output=True, text=True, check=False
    )
    assert result.stdout == "same\n", result.stderr


def test_dtype_survives(tmp_path):
    model = build(modtf.Task(), "modular", WIDTH, 3, dtype="float64")
    model.save(tmp_path / "model.keras")
    loaded = modtf.load_model(tmp_path / "model.keras")
    assert loaded.trainable_variables[0].dtype == "float64"
    assert loaded.population == model.population
