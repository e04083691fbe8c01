"""`run_cell`: what it writes, and that a kill at any moment changes none of it."""

import json
import signal
import subprocess
import sys
from dataclasses import asdict

import keras
import numpy as np
import pandas as pd
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import modtf
from modtf.cell import Cell, Evaluation, Training
from modtf.metrics import activation_measures
from modtf.results import load_results
from modtf.results.schema import COLUMNS, HISTORY_COLUMNS
from modtf.engines.cell import run_cell
from modtf.task import Task

MEASURES = [measure.name for measure in activation_measures()]
CLOCK = ("seconds", "members_times_steps_per_second")

# Kills itself without warning right after the second of four checkpoints.
KILLED = """
import json, os, signal, sys
from modtf.training.callbacks.checkpoint import CheckpointCallback
from modtf.cell import Cell, Evaluation, Training
from modtf.engines.cell import run_cell
from modtf.task import Task

write = CheckpointCallback.on_epoch_end

def write_and_die(self, epoch, logs=None):
    write(self, epoch, logs)
    if epoch == 1:
        os.kill(os.getpid(), signal.SIGKILL)

CheckpointCallback.on_epoch_end = write_and_die
task, width, variant, members, training, evaluation = json.loads(sys.argv[1])
members = tuple(tuple(member) for member in members)
cell = Cell(Task(**task), width, variant, members, Training(**training), Evaluation(**evaluation))
assert cell.folder == sys.argv[3]
run_cell(cell, sys.argv[2], verbose=False)
"""


@pytest.fixture(scope="module")
def folder(small_cell, tmp_path_factory):
    return run_cell(small_cell, tmp_path_factory.mktemp("whole"), verbose=False)


def test_files(folder, small_cell):
    assert folder.name == small_cell.folder
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "results.csv",
        "history.csv",
        "activation.npz",
        "last.keras",
        "best.keras",
        "tensorboard",
    }
    config = json.loads((folder / "config.json").read_text())
    assert config == {**small_cell.to_dict(), "version": modtf.__version__}


def test_results(folder, small_cell):
    frame = load_results(str(folder))
    assert list(pd.read_csv(folder / "results.csv")) == list(COLUMNS)
    assert set(zip(frame["data_seed"], frame["seed"], strict=True)) == set(small_cell.members)
    assert set(frame["measure"]) == {"loss", *CLOCK, *MEASURES}
    assert (frame["num_parameters"] == modtf.load_model(folder / "last.keras").num_parameters).all()
    loss = frame[frame["measure"] == "loss"].pivot_table(
        "value", ["data_seed", "seed", "scale"], "checkpoint"
    )
    assert loss.notna().all(axis=None)
    assert loss.shape == (4, 2)


def test_history_and_activations(folder):
    history = pd.read_csv(folder / "history.csv")
    assert list(history) == list(HISTORY_COLUMNS)
    assert sorted(set(history["step"])) == [2, 4, 6, 8]
    assert set(history["measure"]) == {"loss", *MEASURES}
    arrays = np.load(folder / "activation.npz")
    assert arrays["last"].shape == arrays["best"].shape == (2, 3, 3)
    assert arrays["history"].shape == (4, 2, 3, 3)
    assert arrays["steps"].tolist() == [2, 4, 6, 8]
    assert (arrays["data_seeds"].tolist(), arrays["seeds"].tolist()) == ([0, 1], [0, 2])


def test_saved_models_score_what_the_table_says(folder, small_cell):
    frame = load_results(str(folder))
    for checkpoint in ("last", "best"):
        model = modtf.load_model(folder / f"{checkpoint}.keras")
        scores = modtf.evaluate(model, small_cell.tasks, sizes=small_cell.evaluation)
        for (data_seed, seed), found in zip(small_cell.members, scores, strict=True):
            rows = frame[(frame["checkpoint"] == checkpoint) & (frame["data_seed"] == data_seed)]
            assert set(rows["seed"]) == {seed}
            rows = rows[rows["scale"] == 1.0].set_index("measure")["value"]
            for name in ("loss", "alignment", "adaptation"):
                np.testing.assert_allclose(rows[name], found[name], rtol=1e-5, atol=1e-6)


def test_tensorboard(folder):
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    tags = events.Tags()
    assert {
        "performance/training_loss",
        "performance/validation_loss",
        "speed/steps_per_second",
        "speed/members_times_steps_per_second",
        "test/loss_scale1",
        "test/loss_scale2",
        "activation/module_use",
        "activation/rules_by_modules",
        *(f"measures/{name}" for name in MEASURES),
    } <= set(tags["tensors"])
    assert [event.step for event in events.Tensors("performance/training_loss")] == [2, 4, 6, 8]


def test_a_finished_cell_is_left_alone(folder, small_cell):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert run_cell(small_cell, folder.parent, verbose=False) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def same_but_for_the_clock(folder, other):
    frames = [pd.read_csv(f / "results.csv") for f in (folder, other)]
    frames = [frame[~frame["measure"].isin(CLOCK)].reset_index(drop=True) for frame in frames]
    pd.testing.assert_frame_equal(*frames, check_exact=True)
    pd.testing.assert_frame_equal(
        *(pd.read_csv(f / "history.csv") for f in (folder, other)), check_exact=True
    )
    arrays = [dict(np.load(f / "activation.npz")) for f in (folder, other)]
    for name in arrays[0]:
        np.testing.assert_array_equal(arrays[0][name], arrays[1][name])
    for name in ("last.keras", "best.keras"):
        models = [modtf.load_model(f / name) for f in (folder, other)]
        for a, b in zip(*(model.trainable_variables for model in models), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_killed_run_resumes_bit_for_bit(folder, small_cell, tmp_path):
    cell = small_cell
    definition = [
        cell.task.to_dict(),
        cell.width,
        cell.variant,
        cell.members,
        asdict(cell.training),
        asdict(cell.evaluation),
    ]
    arguments = [json.dumps(definition), str(tmp_path), cell.folder]
    result = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == -signal.SIGKILL, result.stderr[-2000:]
    assert {path.name for path in (tmp_path / cell.folder).iterdir()} == {
        "config.json",
        "checkpoint.npz",
        "tensorboard",
    }
    same_but_for_the_clock(folder, run_cell(cell, tmp_path, verbose=False))


def test_a_kill_after_training_costs_no_training(tmp_path, monkeypatch):
    """The checkpoint is there until the results are."""
    sizes = Evaluation(batches=1, tokens=160, draws=5, tokens_per_draw=16, batch_size=16)
    cell = Cell(Task(num_rules=2), 4, "gt_modular", ((0, 0),), Training(steps=2, evaluations=1), sizes)
    with monkeypatch.context() as patched:
        patched.setattr("modtf.engines.cell.write_results", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_cell(cell, tmp_path, verbose=False)
    assert (tmp_path / cell.folder / "checkpoint.npz").exists()
    monkeypatch.setattr("keras.Model.fit", refuse_to_train(keras.Model.fit))
    folder = run_cell(cell, tmp_path, verbose=False)
    assert (folder / "results.csv").exists()
    assert not (folder / "checkpoint.npz").exists()


def refuse_to_train(fit):
    def checked(self, *args, **options):
        assert options["initial_epoch"] == options["epochs"]
        return fit(self, *args, **options)

    return checked
