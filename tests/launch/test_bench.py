"""launch/bench.py: what its flags ask for, what it refuses, and both tables end to end."""

import json
from functools import partial
from pathlib import Path

import pytest
from flag_values import given as given_to
from processes import command

from modtf.launch import bench
from modtf.launch.benchmark.requests import DEVICE_TABLE, cells_of, combinations, key_of, requests_of_flags
from modtf.tasks.families import with_free_rules
from modtf.tasks.protocol import KERNELS, PRECISIONS

run = partial(command, "bench", timeout=600)
given = partial(given_to, bench)
TINY = ["--arch=mlp", "--rules=2", "--width=4", "--repeats=1", "--seconds=0.01"]


def test_what_is_asked_for_in_cpu_time() -> None:
    """Cells once each, their variants in order."""
    requests = requests_of_flags(given("--all"))
    assert [request["arch"] for request in requests] == [arch for arch in with_free_rules() for _ in range(6)]
    assert {len(request["variants"]) for request in requests} == {4}
    requests = requests_of_flags(given("--all", "--variant=top_k,switch"))
    assert {tuple(request["variants"]) for request in requests} == {("top_k", "switch")}
    with pytest.raises(
        ValueError, match=r"--all measures every value of --arch\. Leave out --arch, or --all\."
    ):
        requests_of_flags(given("--all", "--arch=mlp"))
    requests = requests_of_flags(given("--rules=4,2,4", "--variant=modular,monolithic", "--members=25"))
    found = [[request[name] for name in ("num_rules", "variants", "members")] for request in requests]
    assert found == [[rules, ["monolithic", "modular"], 25] for rules in (4, 2)]


def test_options_are_handed_on() -> None:
    chosen = ["--arch=mha", "--rules=2", "--search=v2", "--set=router.modules=4"]
    (request,) = requests_of_flags(given(*chosen, "--variant=modular,gt_modular"))
    assert request["task"] == {"search": "v2"}
    assert request["router"] == {"modular": {"modules": 4}, "gt_modular": {}}
    assert [row["router"] for row in cells_of(request)] == [{"modular": {"modules": 4}}, {"gt_modular": {}}]
    assert json.loads(json.dumps(request)) == request
    on_device = requests_of_flags(given("--device=gpu", "--members=1,25", *chosen))
    assert {(r["task"]["search"], r["members"]) for r in on_device} == {("v2", 1), ("v2", 25)}


def test_the_table_of_a_device() -> None:
    found = combinations(DEVICE_TABLE, "gpu", {})
    assert len({key_of(cell) for cell in found}) == len(found) == 84
    assert all(cell.pop("variants") == ["modular"] for cell in found)
    values = {name: {cell[name] for cell in found} for name in found[0]}
    assert values == {
        "arch": set(with_free_rules()), "num_rules": {8, 32},
        "width": {32, 128, 512}, "members": {1, 5, 25, 100},
        "precision": set(PRECISIONS), "data": {"device", "host"}, "kernels": set(KERNELS),
    }  # fmt: skip
    assert {cell["kernels"] for cell in found[:40]} == {"accelerator"}
    assert {cell["kernels"] for cell in combinations(DEVICE_TABLE, "cpu", {})[:40]} == {"cpu"}


def test_a_dry_run_measures_nothing(monkeypatch, capsys) -> None:
    monkeypatch.setattr(bench, "measure_requests", None)
    bench.main(given("--device=gpu", "--backend=jax", "--dry_run"))
    first, *lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 84
    assert first.startswith("84 cells, 0 of them measured before; the rest may take some 42.0 minutes.")
    assert "mlp_r8_e32_modular_p25_float32_device_accelerator_jax" in lines[0]


@pytest.mark.slow
def test_tables_of_cpu_time(tmp_path: Path) -> None:
    out = tmp_path / "ünï çødé" / "bench 1.json"
    textbook = Path(__file__).parents[2] / "docs" / "performance" / "textbook_form.py"
    done = run(*TINY, "--variant=monolithic", "--members=2", f"--plugin={textbook}", f"--json={out}")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())
    names = ("step_ms", "train_ms", "textbook_ms", "peak_gflops", "compile_s", "to_alone")
    assert min(row[name] for name in names) > 0
    assert row["program_bytes"] is None or row["program_bytes"] > 4 * row["num_parameters"]
    assert "textbook/ours" in done.stdout
    done = run(*TINY, "--variant=modular", "--members=2", "--evaluation")
    assert done.returncode == 0, done.stderr
    assert "its compilation s" in done.stdout


@pytest.mark.slow
def test_a_device_is_measured_as_training_does_it(tmp_path: Path) -> None:
    """The programs that `fit` calls; tests/test_without_tensorflow.py runs those of JAX."""
    out = tmp_path / "card.json"
    chosen = [*TINY, "--members=2", "--precision=float32", "--data=device", "--kernels=accelerator"]
    done = run("--device=cpu", *chosen, f"--json={out}")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())
    assert "failed" not in row
    assert row["models_per_hour"] == pytest.approx(3600 * 2 / (100_000 * row["step_ms"] / 1000))
    assert 0 < row["peak_fraction"] < 1
    assert row["compile_s"] > 0
    again = run("--device=cpu", *chosen, f"--json={out}")
    assert again.stdout.startswith("1 cell, 1 of them measured before")
