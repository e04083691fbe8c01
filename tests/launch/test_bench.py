"""launch/bench.py end to end, and what it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from absl import flags

from modtf.launch.bench import define_flags
from modtf.launch.benchmark.requests import requests_of_flags
from modtf.launch.cli import define_plugin

SCRIPT = Path(__file__).parents[2] / "launch" / "bench.py"


def given(*arguments: str) -> flags.FlagValues:
    values = flags.FlagValues()
    define_flags(values)
    define_plugin(values)
    values(["bench.py", *arguments])
    return values


def test_all_is_the_whole_table() -> None:
    requests = requests_of_flags(given("--all"))
    assert len(requests) == 18
    assert {len(request["variants"]) for request in requests} == {4}


def test_chosen_cells_once_each_and_variants_in_order() -> None:
    requests = requests_of_flags(given("--rules=4,2,4", "--variant=modular,monolithic", "--members=25"))
    assert [request["num_rules"] for request in requests] == [4, 2]
    assert requests[0]["variants"] == ["monolithic", "modular"]
    assert requests[0]["members"] == 25


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("--arch=cnn", "--arch='cnn'"),
        ("--arch=", "--arch is empty"),
        ("--rules=1", "at least 2"),
        ("--rules=two", "integers separated by commas"),
        ("--width=2", "too small for 32 modules"),
        ("--variant=gt", "--variant='gt'"),
        ("--members=0", "--members=0"),
        ("--repeats=0", "--repeats=0"),
        ("--seconds=0", "above 0"),
        ("--search=v2", "no meaning for arch='mlp'"),
        ("--set=router.heat=2", "--set router.heat is not known"),
        ("--set=training.steps=2", "--set training.steps is not known. The options of a benchmark"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(argument: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        requests_of_flags(given("--arch=mlp", argument))


def test_options_are_handed_on() -> None:
    (request,) = requests_of_flags(
        given(
            "--arch=mha", "--rules=2", "--search=v2", "--set=router.modules=4", "--variant=modular,gt_modular"
        )
    )
    assert request["task"] == {"search": "v2"}
    assert request["router"] == {"modular": {"modules": 4}, "gt_modular": {}}
    assert json.loads(json.dumps(request)) == request


def test_evaluations_need_streams() -> None:
    with pytest.raises(ValueError, match="--evaluation needs TensorFlow"):
        requests_of_flags(given("--evaluation", "--backend=jax"))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=300
    )


def test_bad_input_is_one_line_and_status_1(tmp_path: Path) -> None:
    for arguments in (["mlp"], ["--width=0"], [f"--json={tmp_path}"]):
        done = run(*arguments)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1


def test_a_tiny_table(tmp_path: Path) -> None:
    out = tmp_path / "ünï çødé" / "bench 1.json"
    done = run(
        "--rules=2", "--width=4", "--variant=monolithic", "--repeats=1", "--seconds=0.01", f"--json={out}"
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())
    for name in ("step_ms", "train_ms", "textbook_ms", "peak_gflops", "compile_s", "to_monolithic"):
        assert row[name] > 0
    assert row["program_bytes"] is None or row["program_bytes"] > 4 * row["num_parameters"]
    assert "goal 1" in done.stdout


def test_a_device_is_measured_as_training_does_it(tmp_path: Path) -> None:
    """The programs that `fit` calls, with the kernels of an accelerator."""
    out = tmp_path / "card.json"
    tiny = ["--arch=mlp", "--rules=2", "--width=4", "--members=2", "--precision=float32", "--data=device"]
    done = run(
        "--device=cpu", "--kernels=accelerator", "--repeats=1", "--seconds=0.01", f"--json={out}", *tiny
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())
    assert "failed" not in row
    assert row["models_per_hour"] == pytest.approx(3600 * 2 / (100_000 * row["step_ms"] / 1000))
    assert 0 < row["peak_fraction"] < 1
    assert row["compile_s"] > 0
    again = run("--device=cpu", "--kernels=accelerator", f"--json={out}", *tiny)
    assert again.stdout.startswith("1 cells, 1 of them measured before")
