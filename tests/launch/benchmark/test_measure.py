"""Medians in turn, tables and goals."""

import pytest

from modtf.launch.benchmark.measure import calibrate, interleave, paired_ratio
from modtf.launch.benchmark.table import COST, cost_table, goal_lines, note_lines

ROW = {
    "arch": "mlp", "num_rules": 2, "width": 32, "members": 1, "flops": 100, "train_ms": 1.1, "data_ms": 0.1,
    "peak_fraction": 0.5, "compile_s": 2.0, "program_bytes": None,
}  # fmt: skip


def rows(modular_ms: float) -> list[dict]:
    other = {"step_ms": modular_ms, "to_monolithic": modular_ms, "flops": 110, "fit_overhead": 0.5}
    return [
        {**ROW, "variant": "monolithic", "step_ms": 1.0, "to_monolithic": 1.0, "fit_overhead": 0.05},
        {**ROW, "variant": "modular", **other},
    ]


def test_calibration_reaches_the_time_asked_for() -> None:
    assert calibrate(lambda steps: 0.001, 0.3) == 300
    assert calibrate(lambda steps: 2.0, 0.3) == 1
    costs = iter([5.0, 0.1, *[0.001] * 9])  # it compiles, then a start is slow
    assert calibrate(lambda steps: next(costs), 0.3) == 300


def test_programs_take_turns() -> None:
    order: list[str] = []

    def run_of(name: str, costs: list[float]):
        remaining = iter([7.0, costs[0], *costs])  # two go to calibration

        def run(steps: int) -> float:
            order.append(name)
            return next(remaining)

        return run

    runs = {"a": run_of("a", [1.0, 9.0, 2.0]), "b": run_of("b", [3.0, 3.0, 3.0])}
    assert interleave(runs, 3, 0.1) == {"a": [1.0, 9.0, 2.0], "b": [3.0, 3.0, 3.0]}
    assert order == ["a", "a", "b", "b", *["a", "b"] * 3]


def test_what_takes_long_is_measured_three_times() -> None:
    found = interleave({"long": lambda steps: 2.0, "short": lambda steps: 0.01}, 5, 0.1)
    assert {name: len(values) for name, values in found.items()} == {"long": 3, "short": 5}


def test_ratios_are_of_the_same_round() -> None:
    assert paired_ratio([2.0, 20.0, 4.0, 9.0], [1.0, 10.0, 2.0]) == 2.0


def test_table_has_only_the_columns_it_can_fill() -> None:
    heading = cost_table(rows(1.2), COST).splitlines()[0]
    assert "/mono" in heading
    assert "fit" in heading
    assert "textbook" not in heading
    assert "gate units" not in heading


@pytest.mark.parametrize(("step_ms", "verdict"), [(1.2, "met;"), (1.3, "NOT met in 1 of 2")])
def test_goals(step_ms: float, verdict: str) -> None:
    lines = {line.split(":")[0]: line for line in goal_lines(rows(step_ms))}
    assert verdict in lines["goal 1 cost over monolithic"]
    assert "modular" in lines["goal 1 cost over monolithic"]
    assert "met; worst 0.05" in lines["goal 4 fit over bare loop, smallest cell"]
    assert not any("textbook" in line or "7 evaluation" in line for line in lines)


def test_a_recurrence_may_cost_more() -> None:
    recurrent = [{**row, "gate_units": 1.0} for row in rows(1.9)]
    assert "met; worst 1.9 (limit 2)" in next(line for line in goal_lines(recurrent) if "goal 1" in line)


def test_what_is_not_compared_is_said() -> None:
    compared, mine = {**ROW, "variant": "modular", "has_textbook": True}, {**ROW, "variant": "mine"}
    assert note_lines([compared, mine]) == []
    assert note_lines([compared, {**mine, "has_textbook": False}]) == [
        "Not compared with a textbook form, as there is none: mlp mine."
    ]
