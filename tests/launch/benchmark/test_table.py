"""Tables, and what compares rows."""

from typing import Any

import pytest

from modtf.base.registry import Registry
from modtf.launch.benchmark import table
from modtf.launch.benchmark.costs import costs_of
from modtf.launch.benchmark.table import (  # fmt: skip
    COST,
    compared,
    core_columns,
    core_lines,
    cost_table,
    options_of,
    print_table,
)

CELL = {"arch": "mlp", "num_rules": 2, "width": 32, "members": 1, "data": "memory", "flops": 100}
ROW = {**CELL, "train_ms": 1.1, "data_ms": 0.1, "peak_fraction": 0.5, "compile_s": 2.0, "program_bytes": None}


def rows(modular_ms: float) -> list[dict]:
    other = {"step_ms": modular_ms, "to_monolithic": modular_ms, "flops": 110, "fit_overhead": 0.5}
    return [
        {**ROW, "variant": "monolithic", "step_ms": 1.0, "to_monolithic": 1.0, "fit_overhead": 0.05},
        {**ROW, "variant": "modular", **other},
    ]


def test_a_table_has_only_the_columns_it_can_fill(capsys: pytest.CaptureFixture[str]) -> None:
    heading, _, first, *_ = cost_table(rows(1.2), COST).splitlines()
    names = ["arch", "R", "e", "variant", "step ms", "/mono", "train ms", "of peak", "data", "fit"]
    assert heading.split() == " ".join([*names, "compile s", "MiB"]).split()
    assert " ".join(first.split()) == "mlp 2 32 monolithic 1.00 1.00 1.10 50% 10.0% +5% 2.0 -"
    print_table([{**row, "peak_gflops": 99.0} for row in rows(1.2)])
    assert (
        "Matrix peak of the core: between 99 and 99 GFLOP/s. CPU time, one core." in capsys.readouterr().out
    )


def test_what_is_not_compared_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    baselines = Registry[Any]("baseline")
    baselines.register("textbook")(lambda model: None)
    monkeypatch.setattr(table, "BASELINES", baselines)
    with_textbook, mine = {**ROW, "variant": "modular", "has_textbook": True}, {**ROW, "variant": "mine"}
    assert core_lines([with_textbook, mine]) == []
    assert core_lines([with_textbook, {**mine, "has_textbook": False}]) == [
        "textbook has no counterpart of: mlp mine."
    ]
    lines = cost_table([{**with_textbook, "textbook_ms": 2.2}, mine], core_columns()).splitlines()
    assert lines[0].split()[-3:] == ["textbook", "ms", "textbook/ours"]
    assert lines[2].split()[-2:] == ["2.2", "2.0x"]


def test_costs_are_medians_and_ratios_of_a_round() -> None:
    samples = {"monolithic step": [1.0, 2.0, 3.0], "modular step": [2.0, 4.0, 9.0], "data": [0.4] * 3,
               "peak": [1.0] * 3, "compiled peak": [0.5] * 3, "modular alone": [1.0, 2.0, 4.5]}  # fmt: skip
    cell, known = {**CELL, "variant": "modular", "members": 2}, {"flops": 100, "published_steps": 1000}
    core = costs_of(cell, known, samples, product_flops=50)
    assert (core["step_ms"], core["data_ms"], core["train_ms"]) == (2000.0, 200.0, 2200.0)  # of a member
    assert (core["to_monolithic"], core["to_alone"], core["peak_fraction"]) == (2.0, 1.0, 0.5)
    card = costs_of({**cell, "data": "device"}, known, samples, product_flops=50)
    assert (card["step_ms"], card["step_ms_range"]) == (4000.0, [2000.0, 9000.0])  # of all
    assert card["models_per_hour"] == pytest.approx(3600 * 2 / 4000)


def device_row(members: int, rate: float, **other: Any) -> dict[str, Any]:
    return {
        **CELL, "variant": "modular", "members": members, "precision": "float32", "data": "device",
        "kernels": "cpu", "backend": "jax", "device": "card", "software": "jax",
        "step_ms": 1e3 * members / rate, "member_steps_per_s": rate, "models_per_hour": 3600 * rate / 100_000,
        "peak_fraction": 0.4, "peak_tflops": 50.0, "program_bytes": None, "compile_s": 3.0,
        "task": {}, "router": {"modular": {}}, "model": {}, "xla_flags": "", **other,
    }  # fmt: skip


def test_rows_are_compared_with_25_members_and_the_released_code(capsys: pytest.CaptureFixture[str]) -> None:
    failed = {**device_row(1, 1.0), "failed": "no memory"}
    measured = [device_row(25, 1e5), device_row(100, 2e5), device_row(25, 1e5, width=128)]
    shape = {name: measured[0][name] for name in ("arch", "num_rules", "width", "variant")}
    released = [{**shape, "processes": n, "models_per_hour": speed} for n, speed in ((1, 18.0), (4, 30.0))]
    of_25, of_100, wide = compared(measured, released)
    assert of_100["to_25_members"] == 0.5
    assert of_25["released_models_per_hour"] == 30.0
    assert of_25["to_released"] == pytest.approx(30 / 3600)
    assert "to_released" not in wide
    print_table([*measured, failed], released)
    text = capsys.readouterr().out
    assert "120x" in text
    assert "Matrix peak, float32: between 50 and 50 TFLOP/s." in text
    assert "failed: mlp 2 32 modular 1: no memory" in text


def test_rows_are_compared_with_rows_of_the_same_options() -> None:
    """One file may compare compiler options, or options of the model."""
    simple, flags = {"model": {"cell": "simple"}}, {"xla_flags": "--xla_cpu_use_thunk_runtime=true"}
    routed = {"router": {"modular": {"modules": 3}}}
    measured = [
        {**device_row(members, speed), **options}
        for options, speed in (({}, 1e5), (simple, 4e5), (flags, 8e5), (routed, 5e4))
        for members in (1, 25)
    ]
    released = [{**measured[0], "processes": 1, "models_per_hour": 18.0}]
    found = compared(measured, released)
    assert [row["to_25_members"] for row in found[::2]] == [1.0] * 4
    assert ["to_released" in row for row in found] == [True] * 2 + [False] * 6
    assert [bool(options_of(row)) for row in found] == [False] * 2 + [True] * 6
