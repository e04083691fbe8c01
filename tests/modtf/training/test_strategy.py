"""MirroredStrategy on two logical CPU devices, in a process of its own: devices are made first of all."""

import json
import subprocess
import sys

import numpy as np
import pytest

TWO_DEVICES = """
import json
import sys
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

import contextlib
import numpy as np
import modtf
from modtf.evaluation.evaluator import Evaluator
from modtf.training.callbacks.evaluate import EvaluateCallback
from modtf.training.strategy import choose_strategy

sizes = modtf.Evaluation(
    batches=2, batch_size=8, activation_batch_size=8, tokens=160, draws=5, tokens_per_draw=80, conditions=()
)
results = {"auto": choose_strategy("auto", 8) is None}
for function in (
    lambda: choose_strategy("mirrored", 7),
    lambda: modtf.train(model, tasks, 1, batch_size=7, evaluation=sizes, verbose=False),
):
    mirrored = choose_strategy("mirrored", 8)
    tasks = [modtf.Task(num_rules=2)]
    with mirrored.scope():
        model = modtf.build(tasks, width=4, seed=[0])
        try:
            function()
        except ValueError as error:
            results.setdefault("errors", []).append(str(error))
for name in ("one", "two"):
    tasks = [modtf.Task(arch="rnn", num_rules=2, data_seed=i) for i in range(2)]
    with mirrored.scope() if name == "two" else contextlib.nullcontext():
        model = modtf.build(tasks, width=4, seed=[0, 1])
        population = modtf.Population.of(tasks)
        callback = EvaluateCallback(Evaluator(model, population, sizes, "validation"))
        history = modtf.train(
            model, tasks, 6, batch_size=8, evaluations=2, evaluation=callback, clipnorm=0.05,
            learning_rate=0.03, steps_per_execution=3, jit_compile=False, verbose=False
        )
    results[name] = {
        "replicas": model.distribute_strategy.num_replicas_in_sync,
        "history": {k: list(map(float, v)) for k, v in history.history.items()},
        "activation": np.stack(callback.activations).tolist(),
        "weights": [v.numpy().tolist() for v in model.trainable_variables],
    }
training = modtf.Training(steps=2, batch_size=8, evaluations=1)
task = modtf.Task(num_rules=2)
cell = modtf.Cell(task, 4, "modular", ((0, 0), (1, 0)), modtf.Protocol(training, sizes))
folder = modtf.run_cell(cell, sys.argv[1], strategy=mirrored, verbose=False)
results["cell"] = sorted(path.name for path in folder.iterdir())
print("RESULTS" + json.dumps(results))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    command = [sys.executable, "-c", TWO_DEVICES, str(tmp_path_factory.mktemp("runs"))]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    printed, found = ran.stdout.split("RESULTS")
    return {"printed": printed, **json.loads(found)}


def test_two_devices_train_as_one(results):
    """With clipping active: per member, after the sum over replicas."""
    one, two = results["one"], results["two"]
    assert (one["replicas"], two["replicas"]) == (1, 2)
    assert one["history"].keys() == two["history"].keys()
    for name, values in one["history"].items():
        np.testing.assert_allclose(two["history"][name], values, rtol=1e-3, atol=1e-4, err_msg=name)
    np.testing.assert_allclose(two["activation"], one["activation"], atol=1e-4)
    for a, b in zip(one["weights"], two["weights"], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)


def test_it_says_what_keras_cannot_do_there(results):
    line = "2 replicas: training without XLA and one step per call (Keras supports neither here)."
    assert results["printed"].strip().splitlines() == [line, line]


def test_a_cell_runs_there(results):
    assert {"results.csv", "last.keras", "best.keras"} <= set(results["cell"])


def test_a_batch_that_cannot_be_shared_is_refused(results):
    assert results["errors"] == [
        "batch_size=7 must be divisible by the 2 devices.",
        "batch_size=7 must be divisible by the 2 replicas.",
    ]


def test_auto_is_the_default_device_without_gpus(results):
    assert results["auto"]
