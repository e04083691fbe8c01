"""What TensorBoard serves of a cell, asked as a browser asks it."""

import json
import time
import urllib.request

import numpy as np
import pytest
from tensorboard import program

from modtf.population import Population
from modtf.task import Task
from modtf.training.callbacks.evaluate import EvaluateCallback
from modtf.training.callbacks.tensorboard import TensorBoardWriter, heat_maps

# of TensorBoard itself
pytestmark = pytest.mark.filterwarnings("ignore:html5lib's sanitizer is deprecated:DeprecationWarning")

SECONDS: dict[str, list[float]] = {}


@pytest.fixture(scope="module")
def server(tmp_path_factory, prescribed, run_epochs):
    """A running TensorBoard over two cells of three evaluations each, one of them before training."""
    root = tmp_path_factory.mktemp("runs")
    for variant, activation in {
        "modular": np.full((2, 3, 3), 1 / 3),
        "gt_modular": np.stack([np.eye(3)] * 2),
    }.items():
        series = {"loss": [[1.0, 2.0]] * 3, "alignment": [[0.1, 0.3]] * 3, "unevenness": [[0.2, 0.2]] * 3}
        population = Population.of([Task(num_rules=3)] * 2, [0, 1])
        evaluation = EvaluateCallback(prescribed(population, series, activation, "unevenness"))
        settings = {"variant": variant, "width": "32"}
        board = TensorBoardWriter(root / variant / "tensorboard", settings, evaluation)
        run_epochs(None, [evaluation, board], range(2), steps=10)
        SECONDS[variant] = evaluation.seconds
        board.final(20, {"loss_scale2": 0.25, "alignment": float("nan")})
        board.writer.close()
    tensorboard = program.TensorBoard()
    tensorboard.configure(argv=[None, "--logdir", str(root), "--port", "0", "--load_fast", "false"])
    return tensorboard.launch()


def ask(server, path, data=None):
    request = urllib.request.Request(
        f"{server}data/plugin/{path}",
        data and json.dumps(data).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.loads(answer.read())


def wait_for(question, tries=50):
    """Asks until TensorBoard has read the files."""
    for _ in range(tries):
        found = question()
        if found and len(found) >= 2:
            return found
        time.sleep(0.2)
    raise AssertionError("TensorBoard served nothing")


def test_scalars_of_all_variants_share_their_tags(server):
    tags = wait_for(lambda: ask(server, "scalars/tags"))
    assert set(tags) == {"modular/tensorboard", "gt_modular/tensorboard"}
    expected = {
        "performance/training_loss",
        "performance/validation_loss",
        "measures/alignment",
        "speed/steps_per_second",
        "speed/members_times_steps_per_second",
        "penalty/unevenness",
        "test/loss_scale2",
    }
    for served in tags.values():
        assert set(served) >= expected
        assert "test/alignment" not in served
    series = ask(server, "scalars/scalars?tag=measures/alignment&run=modular/tensorboard")
    assert [(step, pytest.approx(value)) for _, step, value in series] == [(0, 0.2), (10, 0.2), (20, 0.2)]
    speed = ask(server, "scalars/scalars?tag=speed/members_times_steps_per_second&run=modular/tensorboard")
    assert [step for _, step, _ in speed] == [10, 20]
    assert [value for _, _, value in speed] == pytest.approx(
        [10 * 2 / s for s in SECONDS["modular"]], rel=1e-4
    )


def test_activation_matrices_are_images(server):
    tags = wait_for(lambda: ask(server, "images/tags"))
    for served in tags.values():
        assert served["activation/rules_by_modules"]["samples"] == 2  # one per member


def test_module_use_is_a_histogram(server):
    tags = wait_for(lambda: ask(server, "histograms/tags"))
    assert all("activation/module_use" in served for served in tags.values())


def test_hparams_compare_the_cells(server):
    def sessions():
        statuses = ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_RUNNING"]
        question = {"experimentName": "", "allowedStatuses": statuses, "startIndex": 0, "sliceSize": 10}
        return ask(server, "hparams/session_groups", question).get("sessionGroups")

    groups = wait_for(sessions)
    assert {group["hparams"]["variant"] for group in groups} == {"modular", "gt_modular"}
    names = {metric["name"]["tag"] for group in groups for metric in group["metricValues"]}
    assert {"measures/alignment", "test/loss_scale2"} <= names


def test_heat_maps_put_the_matched_modules_on_the_diagonal():
    permuted = np.eye(3)[[2, 0, 1]][None]
    (image,) = heat_maps(permuted)
    (identity,) = heat_maps(np.eye(3)[None])
    np.testing.assert_array_equal(image, identity)


def test_a_diverged_member_is_shown_unordered():
    images = heat_maps(np.stack([np.full((3, 3), np.nan), np.eye(3)]))
    assert np.isfinite(images).all()
    assert heat_maps(np.ones([1, 3, 1])).shape == (1, 72, 24, 3)
