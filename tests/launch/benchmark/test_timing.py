"""Programs that take turns, and how often."""

import pytest

from modtf.launch.benchmark import timing
from modtf.launch.benchmark.timing import calibrate, interleave, paired_ratio, run_of


def test_a_step_of_a_program_of_several() -> None:
    now, calls = [0.0], list[int]()

    def call(times: int) -> None:
        calls.append(times)
        now[0] += 60.0 * times

    run = run_of(lambda: now[0], call, steps=20)
    assert [run(1), run(20), run(21)] == [3.0, 3.0, 3.0]
    assert calls == [1, 1, 2]


def test_calibration_reaches_the_time_asked_for() -> None:
    assert calibrate(lambda steps: 0.001, 0.3) == 300
    assert calibrate(lambda steps: 2.0, 0.3) == 1
    costs = iter([5.0, 0.1, *[0.001] * 9])  # it compiles, then a start is slow
    assert calibrate(lambda steps: next(costs), 0.3) == 300


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "settle", lambda: None)


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
