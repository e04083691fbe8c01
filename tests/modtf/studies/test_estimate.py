"""The estimated cost of a study, from made-up speeds and from a measured one."""

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import vqa
from processes import succeeds

from modtf.models.architectures.sizes import num_parameters
from modtf.models.routers import ROUTERS
from modtf.results import write_activations
from modtf.studies import estimate as module
from modtf.studies import grid, load_study
from modtf.studies.estimate import SMALL, Speed, estimate, evaluation_tokens, measure, parameters_of
from modtf.studies.grid import cell_of
from modtf.studies.load import STUDIES
from modtf.tasks.families import FAMILIES, with_free_rules
from modtf.tasks.family import PUBLISHED
from modtf.training.arithmetic import ACCELERATION

SPEED = Speed(1e-10, 3.0)  # per token and parameter


@pytest.fixture
def measured(monkeypatch):
    """Replaces measuring; the cells that would have been measured."""
    seen = []

    def measure(cell, parameters):
        seen.append(cell)
        return SPEED

    monkeypatch.setattr(module, "measure", measure)
    return seen


@pytest.mark.parametrize("accelerated", [False, True])
def test_hours_are_what_the_model_says(measured, monkeypatch, accelerated):
    monkeypatch.setattr(module, "on_accelerator", lambda: accelerated)
    small = SMALL * (ACCELERATION if accelerated else 1)
    sizes = grid(arch="mlp", num_rules=8, width=[32, 64], variant="modular")
    cells = (sizes * grid(**{"training.steps": 7_000})).cells()
    for cell, cost in zip(cells, estimate(cells, True), strict=True):
        token = SPEED.factor * (cost.parameters + small)
        training = 3.0 + 25 * 7_000 * 256 * token
        assert cost.training == pytest.approx(training / 3600)
        evaluation = 3.0 + 25 * evaluation_tokens(cell) / 3 * token
        assert cost.hours == pytest.approx((training + evaluation) / 3600)
    assert [cell.width for cell in measured] == [64]  # the large one


def test_the_papers_study_measures_one_cell_per_architecture(measured):
    cells = load_study("paper").cells
    costs = dict(zip([cell.label for cell in cells], estimate(cells, True), strict=True))
    assert [cell.task.arch for cell in measured] == ["mlp", "mha", "rnn"]
    large = costs["rnn_regression_r32_e512_modular"]
    assert large.gigabytes == pytest.approx(1 + 4e-9 * 8 * 25 * 25_482_241, rel=0.02)
    assert sum(cost.hours for cost in costs.values()) > 1e5


@pytest.mark.parametrize("name", sorted(STUDIES))
def test_the_cost_of_every_study_is_estimated_without_building_a_model(name, monkeypatch):
    monkeypatch.setattr(module, "parameters_of", Mock(side_effect=AssertionError("built")))
    cells = load_study(name).cells
    costs = estimate(cells)
    assert len(costs) == len(cells)
    assert all(cost.hours > cost.training > 0 and cost.parameters > 1 for cost in costs)


OPTIONS: list[dict[str, Any]] = [
    {"arch": "mlp", "variant": name} for name in ROUTERS if name not in {v.name for v in PUBLISHED}
] + [
    {"arch": "mlp", "variant": "top_k", "setting": "classification", "num_rules": 4, "router.modules": 7},
    {"arch": "rnn", "variant": "modular", "model.cell": "simple", "router.modules": 5},
    {"arch": "vqa_mnist", "variant": "all_mixed_all", "question": "comparison"},
    {"arch": "corruptions", "variant": "routed", "dataset": "cifar10", "width": 4},
    {"arch": "corruptions", "variant": "routed", "model.site": 5},
]


@pytest.mark.parametrize(
    "arch",
    [pytest.param(arch, marks=[pytest.mark.slow] * (arch not in with_free_rules())) for arch in FAMILIES],
)
def test_sizes_in_closed_form_are_those_of_built_models(arch):
    variants = [variant.name for variant in FAMILIES[arch].variants if "mixed" not in variant.name]
    points = [{"arch": arch, "variant": variant} for variant in variants]
    for point in [*points, *(point for point in OPTIONS if point["arch"] == arch)]:
        cell = cell_of({"preset": "smoke", **point})
        assert num_parameters(cell) == parameters_of(cell), point


def test_a_dry_run_needs_no_tensorflow(tmp_path):
    code = "from modtf.launch.sweep import command; command(); assert 'keras' not in sys.modules"
    flags = ["sweep", "--study=quick", "--dry_run", f"--out={tmp_path}"]
    assert "24 cells (24 open)" in succeeds("-c", f"import sys; sys.argv = {flags}; {code}")


def test_members_without_an_axis_start_one_after_the_other(measured):
    """Every member builds and compiles its own model, which takes the 3 s of `SPEED`."""
    (cell,) = vqa.vqa_wide()
    (cost,) = estimate([cell], True)
    assert cost.parameters == parameters_of(cell) == 200_194
    steps = 5 * cell.protocol.training.steps * cell.step_tokens
    assert cost.training * 3600 == pytest.approx(5 * 3.0 + steps * SPEED.factor * (200_194 + SMALL))


def test_plug_ins_are_built_at_two_widths(measured, monkeypatch):
    """Their parameters grow with the square of the width."""
    monkeypatch.setattr(module, "num_parameters", lambda cell: None)
    cells = grid(arch="mlp", num_rules=8, width=[32, 64, 128], variant="modular").cells()
    assert [cost.parameters for cost in estimate(cells)] == pytest.approx(
        [36_585, 142_737, 564_105], rel=0.02
    )


def test_tokens_of_all_evaluations():
    """mlp: 20 small ones, of which ten have the other condition besides, and two full ones."""
    (cell,) = grid(arch="mlp", num_rules=2, width=32, variant="modular").cells()
    small, full = 10 * 1000 + 100_000, 2 * 100 * 1000 + 1_000_000
    assert evaluation_tokens(cell) == 20 * small + 10 * (small + 10 * 1000) + 2 * full


def test_a_speed_is_measured():
    small = {"num_rules": 2, "width": 4, "members": ((0, 0), (1, 0)), "training.batch_size": 8}
    (cell,) = grid(arch="mlp", **small).cells()
    speed = measure(cell, parameters_of(cell))
    assert 0 < speed.factor * SMALL * cell.step_tokens < 1
    assert speed.start > 0


def test_what_exists_for_the_members_alone_is_sized_with_one_of_them(tmp_path):
    """A paired run, whose matrix was learned on task 10."""
    matrix = np.eye(8)[None]
    write_activations(
        tmp_path, last=matrix, best=matrix, history=matrix[None], steps=[0], data_seeds=[10], seeds=[0]
    )
    shared = grid(arch="mlp", num_rules=8, width=4, members=((10, 0),))
    (twin,) = (shared * grid(variant="clamped", **{"router.of": str(tmp_path)})).cells()
    (like,) = (shared * grid(variant="gt_modular")).cells()
    assert parameters_of(twin) == parameters_of(like)
