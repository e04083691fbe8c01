"""Two logical CPU devices train as one, in a process of its own: devices are made first of all."""

import json
from unittest.mock import Mock

import numpy as np
import pytest
from fuzzing import BeginsError
from processes import succeeds

from modtf.engines.cell import run_cell
from modtf.models.routers import ROUTERS
from modtf.tasks.families import with_free_rules
from modtf.training.execution import bounds
from modtf.training.strategy import choose_strategy

pytestmark = pytest.mark.xla
#: every router, and those that draw, or look at the batch, where tokens come in sequences
ROUTED = [("mlp", name) for name in ROUTERS]
ROUTED += [("rnn", "gumbel"), ("mha", "switch"), ("mha", "expert_choice")]

TWO_DEVICES = """
import json
import sys
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

import contextlib
import numpy as np
import modtf
from modtf.tasks.families import with_free_rules
from modtf.training.compile import compile_model
from modtf.training.execution import use_large_programs
from modtf.training.fit import training_batches
from modtf.training.strategy import choose_strategy

STEPS, EVERY, ROUTED = 40, 4, json.loads(sys.argv[2])
results = {"errors": []}
mirrored, members = choose_strategy("mirrored", 8), choose_strategy("members", 7, 3)
results["devices"] = members


def trained(arch, how, data="host", variant="modular", steps=STEPS):
    tasks = [modtf.Task(arch, num_rules=2, data_seed=i) for i in range(3)]
    options = {"amount": 0.5, "hard": True} if variant == "clamped" else {}
    with mirrored.scope() if how == "mirrored" else contextlib.nullcontext():
        model = modtf.build(tasks, variant, 4, [0, 1, 2], router=options)
        training = modtf.Training(steps=STEPS, learning_rate=3e-3, clipnorm=0.5)
        by_keras = how in ("one", "mirrored")
        compile_model(
            model, model.population, training,
            jit_compile=not by_keras, steps_per_execution=1 if by_keras else EVERY,
        )
    batches = training_batches(model, model.population, 8, data=data)
    elements = use_large_programs(model, batches, members if how == "members" else ())
    how_long = {"epochs": steps // EVERY, "steps_per_epoch": EVERY}
    losses = model.fit(elements, **how_long, verbose=0, shuffle=False).history["loss"]
    weights = [v.numpy().tolist() for v in [*model.trainable_variables, *model.optimizer.variables]]
    return {"losses": losses, "weights": weights}


for arch in with_free_rules():
    for how in ("one", "mirrored", "in one program", "members"):
        results[f"{arch} {how}"] = trained(arch, how)
for arch, variant in ROUTED:
    for how in ("one", "mirrored"):
        results[f"{arch} {variant} {how}"] = trained(arch, how, variant=variant, steps=12)
results["mlp on both devices"] = trained("mlp", "members", "device")

sizes = modtf.Evaluation(batches=1, batch_size=8, activation_batch_size=8, tokens=8, conditions=())
for function in (
    lambda: choose_strategy("mirrored", 7),
    lambda: modtf.train(model, tasks, 1, batch_size=7, evaluation=sizes, verbose=False),
    lambda: modtf.train(model, tasks, 1, batch_size=8, evaluation=sizes, devices=("CPU:0", "CPU:1")),
):
    tasks = [modtf.Task(num_rules=2)]
    with mirrored.scope():
        model = modtf.build(tasks, width=4, seed=[0])
        try:
            function()
        except ValueError as error:
            results["errors"].append(str(error))
training = modtf.Training(steps=2, batch_size=8, evaluations=1)
cell = modtf.Cell(modtf.Task(num_rules=2), 4, "modular", ((0, 0), (1, 0)), modtf.Protocol(training, sizes))
for name, strategy in {"members": members, "mirrored": mirrored}.items():
    folder = modtf.run_cell(cell, f"{sys.argv[1]}/{name}", strategy=strategy, verbose=False)
    results[name] = sorted(path.name for path in folder.iterdir())
print("RESULTS" + json.dumps(results))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = succeeds("-c", TWO_DEVICES, tmp_path_factory.mktemp("runs"), json.dumps(ROUTED))
    printed, found = out.split("RESULTS")
    return {"printed": printed, **json.loads(found)}


def assert_trained_as(one, two, tolerance):
    assert len(one["losses"]) == 10
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=tolerance)
    for a, b in zip(one["weights"], two["weights"], strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
def test_two_devices_train_as_one(results):
    """Three members, with clipping active: per member, after the sum over replicas. As shares (two members on
    the first, one on the second) with data of the host, or made there; the loss is the mean over all."""
    for arch in with_free_rules():
        losses = results[f"{arch} one"]["losses"]
        assert (min(losses) if arch == "rnn" else losses[-1]) < losses[0]  # the rnn's ends above its first
        assert_trained_as(results[f"{arch} one"], results[f"{arch} mirrored"], 2e-3)
        assert_trained_as(results[f"{arch} in one program"], results[f"{arch} members"], 1e-6)
    assert_trained_as(results["mlp one"], results["mlp on both devices"], 2e-3)
    line = "2 replicas: training runs without XLA and one step per call, because Keras supports neither XLA "
    line += "nor several steps with replicas."
    assert set(results["printed"].strip().splitlines()) == {line}
    for how in ("members", "mirrored"):
        assert {"results.csv", "last.keras", "best.keras"} <= set(results[how])


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "variant"), ROUTED)
def test_every_router_draws_and_balances_over_the_whole_batch(results, arch, variant):
    one, two = (results[f"{arch} {variant} {how}"] for how in ("one", "mirrored"))
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=1e-5)
    for a, b in zip(one["weights"], two["weights"], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-4)


def test_a_cell_is_trained_on_its_devices(monkeypatch, tmp_path, small_cell):
    train = Mock(side_effect=BeginsError)
    monkeypatch.setattr("modtf.training.trainer.fit_model", train)
    with pytest.raises(BeginsError):
        run_cell(small_cell, tmp_path, strategy=("CPU:0", "/CPU:0"), data="device")
    how = train.call_args.kwargs
    assert (how["devices"], how["data"]) == (("CPU:0", "/CPU:0"), "device")


@pytest.mark.slow
def test_what_cannot_be_shared_is_refused(results):
    assert [name[-5:] for name in results["devices"]] == ["CPU:0", "CPU:1"]
    assert results["errors"][:2] == [
        "batch_size=7 is not valid; expected a multiple of 2, the number of devices.",
        "batch_size=7 is not valid; expected a multiple of 2, the number of replicas.",
    ]
    assert "2 devices cannot share the members of this model" in results["errors"][2]


def test_which_devices_train_which_members():
    assert bounds(25, 4) == [(0, 7), (7, 13), (13, 19), (19, 25)]
    assert bounds(2, 8) == [(0, 1), (1, 2)]
    assert choose_strategy("auto", 8, 3) is None, "one device where there is no GPU"
    assert choose_strategy("members", 8, num_members=1) is None
    with pytest.raises(ValueError, match="strategy='all'"):
        choose_strategy("all", 8)
