"""The TensorBoard logs of a cell."""

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from modtf import Population, Task
from modtf.training.callbacks.evaluate import EvaluateCallback
from modtf.training.callbacks.tensorboard import TensorBoardWriter, heat_maps

MEMBERS = 6  # one more than are shown


@pytest.fixture(scope="module")
def written(tmp_path_factory, prescribed, run_epochs):
    """Return the logs of a cell with three evaluations, one before training, and the seconds between."""
    folder = tmp_path_factory.mktemp("runs") / "cell" / "tensorboard"
    series = {"loss": [range(MEMBERS)] * 3, "alignment": [[0.1, 0.3] * 3] * 3, "unevenness": [[0.2] * 6] * 3}
    population = Population.of([Task(num_rules=3)] * MEMBERS, range(MEMBERS))
    matrices = np.full((MEMBERS, 3, 3), 1 / 3)
    evaluation = EvaluateCallback(prescribed(population, series, matrices, "unevenness"))
    board = TensorBoardWriter(folder, "its trial", {"variant": "modular", "width": "32"}, evaluation)
    run_epochs(None, [evaluation, board], range(2), steps=10)
    board.final(20, {"loss_scale2": 0.25, "alignment": float("nan")})
    return EventAccumulator(str(folder), {"tensors": 0}).Reload(), evaluation.seconds


def test_scalars(written):
    events, seconds = written

    def series(tag):
        return [(one.step, float(tf.make_ndarray(one.tensor_proto))) for one in events.Tensors(tag)]

    assert set(events.Tags()["tensors"]) == {
        "performance/training_loss", "performance/validation_loss", "measures/alignment",
        "penalty/unevenness", "speed/steps_per_second", "speed/members_times_steps_per_second",
        "test/loss_scale2", "activation/rules_by_modules", "activation/module_use",
        "_hparams_/session_start_info",
    }  # fmt: skip
    alignment = [(step, pytest.approx(value)) for step, value in series("measures/alignment")]
    assert alignment == [(0, 0.2), (10, 0.2), (20, 0.2)]
    speed = series("speed/members_times_steps_per_second")
    assert speed == [(10 * (i + 1), pytest.approx(10 * MEMBERS / s, rel=1e-4)) for i, s in enumerate(seconds)]


def test_the_steps_of_every_summary(written):
    """Training starts at 0 and is evaluated every ten steps; the test stream at the end."""
    events, _ = written
    tags = {tag: [event.step for event in events.Tensors(tag)] for tag in events.Tags()["tensors"]}
    del tags["_hparams_/session_start_info"]
    after = ("speed/", "performance/training")
    for tag, steps in tags.items():
        assert steps == (
            [20] if tag.startswith("test/") else [10, 20] if tag.startswith(after) else [0, 10, 20]
        )


def test_images_histograms_and_settings(written):
    events, _ = written
    plugins = {name: set(events.PluginTagToContent(name)) for name in ("images", "histograms", "hparams")}
    assert plugins["images"] == {"activation/rules_by_modules"}
    assert plugins["histograms"] == {"activation/module_use"}
    (start,) = plugins["hparams"]
    content = events.PluginTagToContent("hparams")[start]
    assert b"modular" in content
    assert b"variant" in content
    assert b"its trial" in content
    for event in events.Tensors("activation/rules_by_modules"):
        assert len(event.tensor_proto.string_val) == 2 + 5  # width, height, and one for each of five members


def test_heat_maps_put_the_matched_modules_on_the_diagonal():
    (image,) = heat_maps(np.eye(3)[[2, 0, 1]][None])
    np.testing.assert_array_equal(image, heat_maps(np.eye(3)[None])[0])
    diverged = heat_maps(np.stack([np.full((3, 3), np.nan), np.eye(3)]))  # shown unordered
    assert np.isfinite(diverged).all()
    assert heat_maps(np.ones([1, 3, 1])).shape == (1, 72, 24, 3)
    uneven = np.array([[[0.6, 0.4], [0.9, 0.1]]])  # the first rule decides if it is the most frequent
    corners = [heat_maps(uneven, probs)[0, 0, 0].tolist() for probs in (None, (0.99, 0.01))]
    assert corners == [heat_maps(np.array([[[value]]]))[0, 0, 0].tolist() for value in (0.4, 0.6)]


def test_module_use_counts_rules_as_often_as_they_occur(tmp_path, prescribed):
    population = Population.of([Task(num_rules=3, zipf=1.0)])
    evaluation = EvaluateCallback(prescribed(population, {"loss": [[1.0]]}, np.eye(3)[None]))
    board = TensorBoardWriter(tmp_path / "logs", "cell", {}, evaluation)
    evaluation.on_train_begin()
    board.on_train_begin()
    events = EventAccumulator(str(tmp_path / "logs"), {"tensors": 0}).Reload()
    (event,) = events.Tensors("activation/module_use")
    assert tf.make_ndarray(event.tensor_proto)[:, 1].max() == pytest.approx(6 / 11)


def test_nothing_is_white_and_more_is_darker():
    corners = [heat_maps(np.array([[[1 - x, x], [0.0, 1.0]]]))[0, 0, -1].sum() for x in (0, 0.1, 0.3, 0.45)]
    assert corners[0] == 3
    assert (np.diff(corners) < 0).all()
