"""What a study is said to cost: from speeds that are made up, and one that is measured."""

import pytest

from modtf.studies import estimate as module
from modtf.studies import grid, load_study
from modtf.studies.estimate import SMALL, STARTS, estimate, evaluation_tokens
from modtf.studies.speed import Speed, is_known, parameters_of, speed_of

SECONDS = 1e-10  # per token and parameter


@pytest.fixture
def measured(monkeypatch):
    """Replaces measuring; the labels of what would have been measured."""
    seen = []

    def speed(cell):
        seen.append(cell)
        count = parameters_of(cell)
        tokens = cell.protocol.training.batch_size * cell.task.family.num_training_tokens
        return Speed(SECONDS * (count + SMALL) * tokens, 3.0, count)

    monkeypatch.setattr(module, "speed_of", speed)
    monkeypatch.setattr(module, "is_known", lambda cell: False)
    return seen


def test_hours_are_what_the_model_says(measured):
    sizes = grid(arch="mlp", num_rules=8, width=[32, 64], variant="modular")
    cells = (sizes * grid(**{"training.steps": 7_000})).cells()
    for cell, cost in zip(cells, estimate(cells), strict=True):
        assert cost.parameters == parameters_of(cell)
        tokens = 7_000 * 256 + evaluation_tokens(cell) / 3
        seconds = STARTS * 3.0 + 25 * tokens * SECONDS * (cost.parameters + SMALL)
        assert cost.hours == pytest.approx(seconds / 3600, rel=1e-6)
    assert [cell.width for cell in measured] == [64, 32]  # the large one first


def test_the_papers_study_measures_eight_shapes_and_knows_all_sizes(measured):
    cells = load_study("paper").cells
    costs = dict(zip([cell.label for cell in cells], estimate(cells), strict=True))
    assert len(measured) == 8
    for label, exact in {"mlp_regression_r8_e128": 560_001, "rnn_classification_r32_e32": 102_721}.items():
        for variant in ("monolithic", "gt_modular"):
            assert costs[f"{label}_{variant}"].parameters == pytest.approx(exact, rel=0.02)
    large = costs["rnn_regression_r32_e512_modular"]
    assert large.gigabytes == pytest.approx(1 + 4e-9 * 8 * 25 * 25_482_241, rel=0.01)
    assert sum(cost.hours for cost in costs.values()) > 1e5


def test_on_an_accelerator_what_does_not_grow_is_measured(monkeypatch):
    """Two shapes give a line; with one there is nothing to tell its parts."""
    monkeypatch.setattr(module, "on_accelerator", lambda: True)
    monkeypatch.setattr(module, "is_known", lambda cell: True)
    step, slope = 4e-5, 2e-11  # seconds, and seconds per parameter

    def speed(cell):
        count = parameters_of(cell)
        return Speed(step + slope * count, 3.0, count)

    monkeypatch.setattr(module, "speed_of", speed)
    cells = grid(arch="mlp", num_rules=8, width=[32, 64, 128], variant="modular").cells()
    for cell, cost in zip(cells, estimate(cells), strict=True):
        steps = cell.protocol.training.steps + evaluation_tokens(cell) / 256 / 3
        member = steps * (step + slope * cost.parameters)
        assert cost.hours == pytest.approx((STARTS * 3.0 + len(cell.members) * member) / 3600, rel=0.01)
    (alone,) = estimate(cells[:1])
    known = speed(cells[0])
    tokens = cells[0].protocol.training.steps * 256 + evaluation_tokens(cells[0]) / 3
    seconds = STARTS * 3.0 + len(cells[0].members) * tokens * known.step / 256
    assert alone.hours == pytest.approx(seconds / 3600)


def test_what_was_not_measured_is_taken_for_as_fast_as_the_rest(measured):
    cells = grid(arch=["mlp", "mha"], num_rules=2, width=32, variant="modular").cells()
    all_measured = estimate(cells)
    assert len(measured) == 2
    hurried = estimate(cells, seconds=-1.0)
    assert len(measured) == 3  # one at least
    for one, other in zip(all_measured, hurried, strict=True):
        assert other.hours == pytest.approx(one.hours)


def test_tokens_of_all_evaluations():
    """mlp: 20 small ones, of which ten have the other condition besides, and two full ones."""
    (cell,) = grid(arch="mlp", num_rules=2, width=32, variant="modular").cells()
    small, full = 10 * 1000 + 100_000, 2 * 100 * 1000 + 1_000_000
    assert evaluation_tokens(cell) == 20 * small + 10 * (small + 10 * 1000) + 2 * full


def test_a_measured_speed_is_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("MODTF_CACHE", str(tmp_path))
    small = {"num_rules": 2, "width": 4, "members": ((0, 0), (1, 0)), "training.batch_size": 8}
    (cell,) = grid(arch="mlp", **small).cells()
    assert not is_known(cell)
    speed = speed_of(cell)
    assert 0 < speed.step < 1
    assert speed.parameters == parameters_of(cell)
    assert is_known(cell)
    monkeypatch.setattr("modtf.studies.speed._measure", None)
    assert speed_of(cell) == speed
    next((tmp_path / "speed").iterdir()).write_text("{")
    monkeypatch.setattr("modtf.studies.speed._measure", lambda cell: Speed(1.0, 1.0, 1))
    assert speed_of(cell).step == 1.0
