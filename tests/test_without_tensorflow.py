"""With the JAX backend and no TensorFlow: data, models, measures, `modtf run`, the benchmark."""

import json
import os

import processes
import pytest

from modtf.tasks.families import with_free_rules

pytest.importorskip("jax")


# Python runs a module of this name first: nothing after it can import TensorFlow.
BLOCK = """
import sys

class NoTensorFlow:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "tensorflow_datasets"):
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, NoTensorFlow())
"""

LIBRARY = """
import hashlib, json, sys
import jax
import numpy as np
import modtf, modtf.metrics
from modtf.datasets.device import DeviceStream
from modtf.tasks.families import with_free_rules

for arch in with_free_rules():
    tasks = [modtf.Task(arch, num_rules=4, data_seed=i) for i in range(2)]
    model = modtf.build(tasks, "modular", 16, [0, 1])
    batch = {name: np.asarray(v[0]) for name, v in DeviceStream(model.population, 32).make(0, 1)[0].items()}
    task = modtf.Task(arch, num_rules=5, data_seed=1)
    features, target = jax.jit(DeviceStream(task, 8).make, static_argnums=1)(0, 1)
    digest = hashlib.sha256(np.asarray(features["rule"]).astype("<i4").tobytes()).hexdigest()[:16]
    sums = [np.ravel(array).astype(float) for array in (features["inputs"], target)]
    sums = [array @ np.random.RandomState(0).randn(array.size) / np.sqrt(array.size) for array in sums]
    rules, *known = json.load(open(sys.argv[1]))[task.name]["train"]  # of the host's stream
    assert digest == rules and np.allclose(sums, known, rtol=1e-4, atol=1e-5), (arch, digest, sums)
    in_turn, at_once = (DeviceStream(tasks, 8).make(3, 2, at_once=each) for each in (False, True))
    for one, other in zip(jax.tree.leaves(in_turn), jax.tree.leaves(at_once), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    activation = np.asarray(model(batch)["activation"])[:, 0].reshape(-1, 4)
    rule = np.eye(4)[batch["rule"][:, 0].reshape(-1)]
    scores = modtf.metrics.measure_all(rule.T @ activation / rule.sum(axis=0)[:, None])
    assert 0 <= scores["alignment"] <= 1
    print(arch, "ok")
"""

OWN_LAYERS = """
import keras, modtf
import numpy as np
from keras import layers, ops
from modtf.models import ModularModel

@modtf.register_architecture("own_layers")
class OwnLayers(ModularModel):
    has_members_axis = False

    def make_layers(self):
        self.router = self.make_router(self.num_rules)
        self.body = keras.Sequential([layers.Dense(8), layers.BatchNormalization(), layers.Dropout(0.5)])
        self.last = layers.Dense(1)

    def forward(self, inputs, rule):
        hidden = self.body(inputs)
        dropped.append(float(ops.mean(ops.cast(hidden == 0, "float32"))))
        return {"target": self.last(hidden), "activation": self.route(rule)}

dropped, task = [], modtf.Task("mlp", num_rules=2)
model = modtf.build(task, "gt_modular", 8, architecture="own_layers")
features = {"inputs": np.random.default_rng(0).standard_normal([64, task.token_width]).astype("float32")}
features["rule"] = np.zeros([64], "int32")
average = model.body.layers[1].moving_mean
states = [[v.value for v in group] for group in (model.trainable_variables, model.non_trainable_variables)]
for training in (True, False):
    dropped.clear()
    _, state = model.stateless_call(*states, features, training=training)
    after = dict(zip([v.path for v in model.non_trainable_variables], state))[average.path]
    print(training, 0.3 < dropped[0] < 0.7, bool(np.any(np.asarray(after) != 0)))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Runs Python without TensorFlow."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(BLOCK)
    path = os.pathsep.join([str(folder), str(processes.ROOT)])

    def run(*arguments):
        environment = {"PYTHONPATH": path, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
        environment["XLA_FLAGS"] = "--xla_backend_optimization_level=0"  # programs that hardly run
        return processes.python(*arguments, env=environment)

    return run


def test_it_is_blocked(python):
    done = python("-c", "import tensorflow")
    assert "ImportError: tensorflow is not there" in done.stderr


@pytest.mark.slow
def test_data_are_made_and_models_measured(python):
    done = python("-c", LIBRARY, processes.ROOT / "tests" / "datasets" / "golden.json")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [f"{arch} ok" for arch in with_free_rules()]


def test_layers_of_keras_know_whether_the_model_trains(python):
    """Dropout drops, and batch normalisation moves its averages, in training alone."""
    done = python("-c", OWN_LAYERS)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["True True True", "False False False"]


@pytest.mark.slow
@pytest.mark.xla
def test_run_trains_and_measures(python, tmp_path):
    flags = ["--arch=mlp", "--preset=smoke", "--variant=modular", f"--out={tmp_path / 'run'}"]
    done = python(processes.ROOT / "launch" / "run.py", *flags)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "1.055 ±3.621  2.101 ±7.268" in done.stdout  # as with TensorFlow
    assert "without; MODTF_XLA" not in done.stdout
    (config,) = (tmp_path / "run").glob("*/config.json")
    assert json.loads(config.read_text())["provenance"]["xla"] == "on"


@pytest.mark.slow
def test_a_device_is_measured_and_profiled(python, tmp_path):
    """With the programs of an accelerator, on the CPU."""
    script, out = processes.ROOT / "benchmarks" / "bench.py", tmp_path / "card.json"
    small = ["--arch=mlp", "--rules=2", "--width=4", "--members=2", "--precision=float32", "--repeats=1"]
    small += ["--seconds=0.01", "--data=device,host", "--kernels=accelerator", f"--profile={tmp_path / 't'}"]
    done = python(script, "--backend=jax", "--device=cpu", f"--json={out}", *small)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = json.loads(out.read_text())
    assert [row["data"] for row in rows] == ["device", "host"]
    for row in rows:
        assert "failed" not in row
        assert row["models_per_hour"] == pytest.approx(3600 * 2 / (100_000 * row["step_ms"] / 1000))
        assert 0 < row["peak_fraction"] < 1
        assert row["program_bytes"] > 4 * 2 * row["num_parameters"]
    assert "models/h" in done.stdout


def test_a_device_that_is_not_there_is_one_line(python):
    done = python(processes.ROOT / "benchmarks" / "bench.py", "--backend=jax", "--device=gpu")
    assert done.returncode == 1
    assert "--device=gpu: jax" in done.stderr
    assert done.stderr.count("\n") == 1
