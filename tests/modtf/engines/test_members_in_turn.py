"""A registered model: members train in turn, resume after a kill, and invalid models are rejected."""

import random
import shutil
from dataclasses import replace
from unittest.mock import Mock

import keras
import numpy as np
import pandas as pd
import pytest
from interrupted import Killed
from registering import forgotten

import modtf
from modtf import Evaluation, Protocol, Training, run_cell
from modtf.analysis import find_missing
from modtf.engines.cell import make_member, train_and_report
from modtf.engines.train_cell import run_name
from modtf.models.own import MODELS, make_model, register_model
from modtf.models.routers import ROUTERS

CLOCK = ("seconds", "members_times_steps_per_second")


class Little(keras.Model):
    """A model with two modules; a test sets its outputs and their fault."""

    def __init__(self, outputs=lambda target, activation: {"target": target, "activation": activation}):
        super().__init__()
        self.gate, self.outputs = keras.layers.Dense(2, activation="softmax"), outputs
        self.answer = keras.layers.Dense(2)

    def call(self, features):
        activation = self.gate(keras.ops.cast(features["rule"], "float32")[..., None])
        answers = self.answer(features["inputs"])
        return self.outputs(keras.ops.sum(activation * answers, axis=-1), activation)


@pytest.fixture(autouse=True)
def forget():
    """Models that a test registers are gone after it."""
    with forgotten(MODELS, ROUTERS):
        yield


def a_cell(name="little", arch="mlp", **options):
    sizes = Evaluation(batches=1, batch_size=8, tokens=64, draws=1, tokens_per_draw=64, conditions=())
    protocol = Protocol(Training(steps=4, batch_size=4, evaluations=2, learning_rate=0.01), sizes)
    return modtf.Cell(modtf.Task(arch, num_rules=3), 4, name, ((0, 0), (1, 2)), protocol, model=options)


@pytest.mark.slow
@pytest.mark.xla
def test_a_killed_cell_resumes_to_the_same_results(tmp_path):
    register_model("little")(lambda task, width, seed: Little())
    cell = a_cell()
    whole = run_cell(cell, tmp_path / "whole", verbose=False)
    with pytest.raises(KeyboardInterrupt):
        run_cell(cell, tmp_path / "again", verbose=False, callbacks=[Killed(training=1)])
    parts = tmp_path / "again" / cell.folder / "members"
    assert (parts / "task0_seed0" / "results.csv").exists()
    assert (parts / "task1_seed2" / "checkpoint.npz").exists()
    resumed = run_cell(cell, tmp_path / "again", verbose=False)
    tables = [pd.read_csv(folder / "results.csv") for folder in (whole, resumed)]
    tables = [table[~table["measure"].isin(CLOCK)].reset_index(drop=True) for table in tables]
    pd.testing.assert_frame_equal(*tables, check_exact=True)
    assert set(zip(tables[0]["data_seed"], tables[0]["seed"], strict=True)) == {(0, 0), (1, 2)}
    losses = tables[0].query("measure == 'loss' and checkpoint == 'last'")["value"]
    assert len(set(losses)) == len(losses) == 2
    arrays = [np.load(folder / "activation.npz") for folder in (whole, resumed)]
    assert arrays[0]["last"].shape == (2, 3, 2)
    assert arrays[0]["history"].shape == (3, 2, 3, 2)
    np.testing.assert_equal(dict(arrays[1]), dict(arrays[0]))
    assert set(modtf.load_results(str(resumed))["num_parameters"]) == {4 + 6}
    model = make_model("little", cell.task, 4, 0, {})
    model.load_weights(resumed / "members" / "task0_seed0" / "last.weights.h5")


def test_the_steps_of_a_resumed_cell_count_the_members_that_have_finished(tmp_path):
    register_model("little")(lambda task, width, seed: Little())
    with pytest.raises(KeyboardInterrupt):
        train_and_report(a_cell(), tmp_path, Mock(side_effect=[None, None, KeyboardInterrupt]))
    train_and_report(a_cell(), tmp_path, report := Mock())
    assert report.call_args_list[0].args >= (2,)
    assert report.call_args.args == (4,)


def test_the_members_of_a_cell_are_one_trial_of_tensorboard(tmp_path, monkeypatch):
    """Their folders have the same names in every cell, so that HParams would mix the cells."""
    register_model("little")(lambda task, width, seed: Little())
    monkeypatch.setattr(
        "modtf.engines.train_cell.TensorBoardWriter", board := Mock(side_effect=KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        run_cell(a_cell(), tmp_path, verbose=False)
    folder, trial, *_ = board.call_args.args
    assert folder == tmp_path / "tensorboard" / run_name(a_cell(), trial) / "task0_seed0"
    assert trial == a_cell().folder


def test_names_of_runs_in_tensorboard_begin_with_what_differs():
    """TensorBoard cuts long names at their end."""
    task, protocol = modtf.Task(arch="vqa_mnist", question="comparison"), Protocol.quick(modtf.Task())
    cells = [
        modtf.Cell(task, 16, variant, ((0, 0),), protocol) for variant in ("all_all_sub", "all_all_group")
    ]
    wide = replace(cells[0], width=32), replace(cells[0], members=((1, 0),))
    names = [run_name(cell, cell.folder) for cell in (*cells, *wide)]
    assert len(set(names)) == 4
    assert max(map(len, names)) <= 45
    assert len({name[:20] for name in names[:3]}) == 3


@pytest.mark.slow
def test_a_kill_just_before_the_manifest_loses_no_member(tmp_path, monkeypatch):
    register_model("little")(lambda task, width, seed: Little())
    with monkeypatch.context() as patched:
        patched.setattr("modtf.engines.state.write_manifest", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_cell(a_cell(), tmp_path, verbose=False)
    assert (tmp_path / a_cell().folder / "results.csv").exists()
    assert find_missing(tmp_path)["status"].tolist() == ["unfinished"]
    monkeypatch.setattr("modtf.engines.cell.train_cell", Mock(side_effect=AssertionError("trained")))
    folder = run_cell(a_cell(), tmp_path, verbose=False)
    assert not list(folder.rglob("checkpoint*"))
    (folder / "manifest.json").unlink()
    with pytest.warns(UserWarning, match=r"is damaged and left out: manifest\.json is missing"):
        assert modtf.load_results(tmp_path).empty


@pytest.mark.slow
def test_what_a_member_left_is_its_own_and_as_it_was_written_or_not_taken(tmp_path, capsys):
    register_model("little")(lambda task, width, seed: Little())
    cells = [a_cell(), replace(a_cell(), width=5)]
    for cell in cells:
        with pytest.raises(KeyboardInterrupt):
            run_cell(cell, tmp_path, verbose=False, callbacks=[Killed(training=1)])
    first, other = (tmp_path / cell.folder / "members" / "task0_seed0" for cell in cells)
    table = first / "history.csv"
    before = table.read_text()
    table.write_text(before.replace("loss", "0loss", 1))
    whole = run_cell(cells[0], tmp_path, verbose=False)
    assert f"{first} is damaged: the size of history.csv changed" in capsys.readouterr().out
    assert table.read_text() == before
    shutil.copytree(first, other, dirs_exist_ok=True)
    with pytest.raises(ValueError, match=f"{other} holds the cell {whole.name[:20]}"):
        run_cell(cells[1], tmp_path, verbose=False)


def test_weights_come_from_task_and_seed_alone():
    register_model("little")(lambda task, width, seed: Little())
    before = random.getstate()
    tasks = [(modtf.Task(), 0), (modtf.Task(), 0), (modtf.Task(), 1), (modtf.Task(data_seed=1), 0)]
    found = [make_model("little", task, 4, seed, {}).get_weights()[0] for task, seed in tasks]
    assert random.getstate() == before
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    assert not np.array_equal(found[0], found[3])


NAN = float("nan")
WRONG = {
    "a tensor": (lambda y, p: y, r"must return a dict with the keys 'target' .* received \w*Tensor"),
    "another key": (lambda y, p: {"output": y}, r"received \['output'\]. Wrap it"),
    "a shape": (lambda y, p: {"target": y[:, None]}, r"'target' has the shape \(2, 1\) .* expected \(2,\)"),
    "NaN": (lambda y, p: {"target": NAN * y}, "'target' holds NaN or infinity: it is invalid"),
    "no modules": (lambda y, p: {"target": y, "activation": p[:, 0]}, r"shape \(2,\); expected \(2, 'M'\)"),
    "no sum": (lambda y, p: {"target": y, "activation": 2 * p}, "its sums over modules between 2 and 2;"),
    "negative": (lambda y, p: {"target": y, "activation": p - [2.0, -2.0]}, "lies between -"),
    "NaN activation": (lambda y, p: {"target": y, "activation": NAN * p}, "'activation' holds NaN"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_outputs_are_one_line_before_any_training(what, tmp_path):
    outputs, message = WRONG[what]
    register_model("little")(lambda task, width, seed: Little(outputs))
    with pytest.raises(ValueError, match=rf"The model 'little': .*{message}") as caught:
        run_cell(a_cell(), tmp_path, verbose=False)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_function_that_fails_or_returns_no_model():
    @register_model("failing")
    def failing(task, width, seed):
        raise RuntimeError("no\nmemory")

    with pytest.raises(ValueError, match=r"The model 'failing' failed in line \d+: RuntimeError: no memory$"):
        make_member(a_cell("failing"), a_cell().population.single_member(0))
    register_model("nothing")(lambda task, width, seed: None)
    with pytest.raises(ValueError, match="'nothing' returned NoneType; expected a keras"):
        make_member(a_cell("nothing"), a_cell().population.single_member(0))
    with pytest.raises(
        ValueError, match="experts=3 is not an option of the model 'nothing'; its options: none"
    ):
        make_member(a_cell("nothing", experts=3), a_cell().population.single_member(0))


def test_a_model_of_one_length_of_sequences():
    """A model that would fail after training is rejected before it."""

    @register_model("fixed")
    def fixed(task, width, seed):
        inputs, rule = keras.Input([10, 12], name="inputs"), keras.Input([10], name="rule", dtype="int32")
        y = keras.layers.Reshape([10])(keras.layers.Dense(10)(keras.layers.Flatten()(inputs)))
        return keras.Model({"inputs": inputs, "rule": rule}, {"target": y})

    cell = a_cell("fixed", "mha")
    make_member(cell, cell.population.single_member(0))
    cell = replace(cell, protocol=cell.protocol.replace(conditions=("scale2", "len30")))
    with pytest.raises(ValueError, match="'fixed': The model fails under the condition 'len30': "):
        make_member(cell, cell.population.single_member(0))


def test_what_cannot_be_registered():
    with pytest.raises(ValueError, match="'modular' has the name of a router"):
        register_model("modular")(lambda task, width, seed: None)
    for wrong in (lambda task: None, 42):
        with pytest.raises(ValueError, match=r"'mine' must be a function of \(task, width, seed\)"):
            MODELS.add("mine", wrong, "here:mine")
    register_model("mine")(lambda task, width, seed, *, experts=2: None)
    ROUTERS.add("mine", ROUTERS["modular"], "here:mine")
    with pytest.raises(ValueError, match="A registered model and a router have the same name, 'mine'"):
        make_member(a_cell("mine"), a_cell("mine").population.single_member(0))
