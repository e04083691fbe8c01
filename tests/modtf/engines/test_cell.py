"""`run_cell`: what it writes. Kills at random moments: `tests/launch/test_kill_loop.py`."""

import json
from dataclasses import replace

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import modtf
from modtf import Cell, Evaluation, Protocol, Task, Training, load_results, run_cell
from modtf.engines.state import LockedError, locked
from modtf.metrics import activation_measures
from modtf.metrics.registry import BESIDE
from modtf.results import COLUMNS, HISTORY_COLUMNS, load_activations
from modtf.results.schema import DIVERGED
from modtf.tasks.families import with_free_rules

MEASURES = [measure.name for measure in activation_measures()]
CLOCK = ("seconds", "members_times_steps_per_second")


@pytest.fixture(scope="module")
def folder(small_cell, tmp_path_factory):
    return run_cell(small_cell, tmp_path_factory.mktemp("whole"), verbose=False)


def test_files(folder, small_cell):
    assert folder.name == small_cell.folder
    files = "config.json results.csv history.csv activation.npz last.keras best.keras "
    assert {path.name for path in folder.iterdir()} == {*files.split(), "manifest.json"}
    config = json.loads((folder / "config.json").read_text())
    made_with = config.pop("provenance")
    assert config == {**small_cell.to_dict(), "version": modtf.__version__, "manifest": True}
    versions = {module.__name__: module.__version__ for module in (modtf, tf, keras, np)}
    assert versions.items() <= made_with.items()
    others = "python backend system processor accelerators precision strategy xla"
    assert set(made_with) - set(versions) == set(others.split())
    assert all(isinstance(value, str) and value for value in made_with.values())
    assert (made_with["precision"], made_with["strategy"], made_with["xla"]) == (
        "float32",
        "one device",
        "off",
    )


def test_results(folder, small_cell):
    frame = load_results(str(folder))
    assert list(pd.read_csv(folder / "results.csv")) == list(COLUMNS)
    assert set(zip(frame["data_seed"], frame["seed"], strict=True)) == set(small_cell.members)
    assert set(frame["measure"]) == {"loss", *CLOCK, *MEASURES}
    assert {*CLOCK, DIVERGED} <= set(BESIDE)
    assert (frame["num_parameters"] == modtf.load_model(folder / "last.keras").num_parameters).all()
    assert (frame["num_modules"] == 3).all()
    loss = frame[frame["measure"] == "loss"]
    loss = loss.pivot_table("value", ["data_seed", "seed", "condition"], "checkpoint")
    assert loss.notna().all(axis=None)
    assert loss.shape == (2 * 2, 3)  # members and conditions; tail, last, best
    assert set(frame[frame["measure"] != "loss"]["condition"]) == {"iid"}
    assert (frame[list(small_cell.columns)].drop_duplicates().to_dict("records")) == [small_cell.columns]


def test_history_and_activations(folder):
    history = pd.read_csv(folder / "history.csv")
    assert list(history) == list(HISTORY_COLUMNS)
    assert sorted(set(history["step"])) == [0, 2, 4, 6, 8]
    assert set(history["condition"]) == {"iid"}
    assert set(history["measure"]) == {"loss", *MEASURES}
    arrays = np.load(folder / "activation.npz")
    assert arrays["last"].shape == arrays["best"].shape == (2, 3, 3)
    assert arrays["history"].shape == (5, 2, 3, 3)
    assert arrays["steps"].tolist() == [0, 2, 4, 6, 8]
    assert (arrays["data_seeds"].tolist(), arrays["seeds"].tolist()) == ([0, 1], [0, 2])
    rows = load_results(folder).query("measure == 'alignment' and checkpoint == 'tail'")
    (found,) = load_activations(folder)  # of test data, where those of the history are of validation data
    np.testing.assert_allclose(found.measured("tail")["alignment"], rows["value"], rtol=1e-6)


def test_saved_models_score_what_the_table_says(folder, small_cell):
    frame = load_results(str(folder))
    for checkpoint in ("last", "best"):
        model = modtf.load_model(folder / f"{checkpoint}.keras")
        scores = modtf.evaluate(model, small_cell.population, evaluation=small_cell.protocol.evaluation)
        for (data_seed, seed), found in zip(small_cell.members, scores, strict=True):
            rows = frame[(frame["checkpoint"] == checkpoint) & (frame["data_seed"] == data_seed)]
            assert set(rows["seed"]) == {seed}
            rows = rows[rows["condition"] == "iid"].set_index("measure")["value"]
            for name in ("loss", "alignment", "adaptation"):
                np.testing.assert_allclose(rows[name], found[name], rtol=1e-5, atol=1e-6)


def test_a_member_without_a_finite_evaluation_has_no_best(small_cell, tmp_path):
    """Its best weights are those before training, whose loss says nothing about the training."""
    training = replace(small_cell.protocol.training, learning_rate=1e30)
    cell = replace(small_cell, protocol=replace(small_cell.protocol, training=training))
    folder = run_cell(cell, tmp_path, verbose=False)
    loss = load_results(folder).query("measure == 'loss'")
    assert set(loss["checkpoint"]) == {"tail", "last", "best"}
    assert not np.isfinite(loss["value"]).any()
    (found,) = load_activations(folder)
    assert np.isnan(found.best).all()


@pytest.mark.slow
def test_a_tail_reads_new_data_at_every_evaluation(small_cell, tmp_path):
    """Together they read as much as the last evaluation, and agree with it for constant weights."""
    sizes = Evaluation(
        batches=20, batch_size=16, tokens=25_600, activation_batch_size=160, draws=5, tokens_per_draw=160
    )
    training = replace(small_cell.protocol.training, steps=100, learning_rate=1e-30, evaluations=4, tail=10)
    cell = replace(small_cell, protocol=Protocol(training, sizes))
    folder = run_cell(cell, tmp_path, verbose=False)
    loss = load_results(folder).query("measure == 'loss'")
    values = loss.pivot(index=["data_seed", "condition"], columns="checkpoint", values="value")
    np.testing.assert_allclose(values["tail"], values["last"], rtol=1e-5)
    (found,) = load_activations(folder)
    assert found.steps.tolist() == [0, 25, 50, 75, 100]
    assert found.evaluations("tail").shape == (10, 2, 3, 3)
    assert len(np.unique(found.evaluations("tail")[:, 0, 0, 0])) == 10
    np.testing.assert_allclose(found.at("tail"), found.last, atol=1e-3)


@pytest.mark.slow
def test_the_tail_is_the_mean_over_the_last_evaluations(folder, small_cell):
    """Covers the last two of four, each on a tenth of the data. The reference is a second training."""
    sizes, training = small_cell.protocol.evaluation.smaller(10, None), small_cell.protocol.training
    population, found = small_cell.population, []
    model = modtf.build(population, small_cell.variant, small_cell.width)

    def measure(*_):
        found.append(modtf.evaluate(model, population, evaluation=sizes))

    names = ("batch_size", "learning_rate", "evaluations")
    how = {name: getattr(training, name) for name in names} | {"evaluation": sizes.smaller(1)}
    callbacks = [keras.callbacks.LambdaCallback(on_epoch_end=measure)]
    modtf.train(model, population, training.steps, **how, callbacks=callbacks, verbose=False)
    assert len(found) == 4
    frame = load_results(str(folder))
    frame = frame[(frame["checkpoint"] == "tail") & ~frame["measure"].isin(CLOCK)]
    for row in frame.itertuples():
        member = small_cell.members.index((row.data_seed, row.seed))
        name = small_cell.task.family.condition(row.condition).of(row.measure)
        expected = np.mean([scores[member][name] for scores in found[2:]])
        np.testing.assert_allclose(row.value, expected, rtol=1e-6, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("arch", with_free_rules())
def test_every_family_runs(arch, tmp_path):
    """With an option of the router, in classification."""
    sizes = Evaluation(batches=1, batch_size=8, tokens=160, draws=2, tokens_per_draw=80)
    sizes = replace(sizes, conditions=("scale2",))
    protocol = Protocol(Training(steps=2, batch_size=4, evaluations=2), sizes)
    task = Task(arch, "classification")
    cell = Cell(task, 8, "modular", ((0, 0), (0, 1)), protocol, router={"modules": 3})
    frame = load_results(str(run_cell(cell, tmp_path, verbose=False)))
    assert set(frame["checkpoint"]) == {"tail", "last", "best"}
    assert {"loss", "error", *MEASURES} <= set(frame["measure"])
    assert set(frame["condition"]) == {"iid", "scale2"}
    assert set(frame["model_options"]) == {"modules=3"}
    assert set(frame["num_modules"]) == {3}
    history = pd.read_csv(tmp_path / cell.folder / "history.csv")
    errors = history[history["measure"] == "error"].pivot_table("value", "step", ["data_seed", "seed"])
    assert errors.shape == (3, 2)  # one evaluation before training


def test_what_cannot_be_built_leaves_nothing(small_cell, tmp_path):
    with pytest.raises(ValueError, match="temperature=2 is no"):
        run_cell(replace(small_cell, router={"temperature": 2}), tmp_path, verbose=False)
    assert list(tmp_path.iterdir()) == []


def test_one_that_another_process_works_on(small_cell, tmp_path):
    with locked(tmp_path, small_cell.folder), pytest.raises(LockedError, match="is in use by process"):
        run_cell(small_cell, tmp_path, verbose=False)
    assert not (tmp_path / small_cell.folder).exists()


def test_tensorboard(folder):
    events = EventAccumulator(str(next((folder.parent / "tensorboard").iterdir()))).Reload()
    tags = events.Tags()
    names = "performance/training_loss performance/validation_loss speed/steps_per_second test/loss "
    names += "speed/members_times_steps_per_second test/loss_scale2 activation/module_use "
    names += "activation/rules_by_modules"
    assert {*names.split(), *(f"measures/{name}" for name in MEASURES)} <= set(tags["tensors"])
    assert [event.step for event in events.Tensors("performance/training_loss")] == [2, 4, 6, 8]
    assert [event.step for event in events.Tensors("measures/alignment")] == [0, 2, 4, 6, 8]


def test_a_finished_cell_is_left_alone(folder, small_cell):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert run_cell(small_cell, folder.parent, verbose=False) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.slow
def test_a_kill_after_training_costs_no_training(tmp_path, monkeypatch):
    """The checkpoint exists until the results are written."""
    sizes = Evaluation(batches=1, tokens=160, draws=5, tokens_per_draw=16, batch_size=16)
    protocol = Protocol(Training(steps=2, evaluations=1), sizes)
    cell = Cell(Task(num_rules=2), 4, "gt_modular", ((0, 0),), protocol)
    with monkeypatch.context() as patched:
        patched.setattr("modtf.engines.train_cell.write_results", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_cell(cell, tmp_path, verbose=False)
    assert (tmp_path / cell.folder / "checkpoint.npz").exists()
    fit = keras.Model.fit

    def refuse_to_train(self, *args, **options):
        assert options["initial_epoch"] == options["epochs"]
        return fit(self, *args, **options)

    monkeypatch.setattr("keras.Model.fit", refuse_to_train)
    folder = run_cell(cell, tmp_path, verbose=False)
    assert (folder / "results.csv").exists()
    assert not (folder / "checkpoint.npz").exists()
