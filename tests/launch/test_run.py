"""`launch/run.py`: the real command, end to end at the smallest size, and everything it must refuse."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from flag_values import given
from printed_commands import commands_in, in_a_shell
from processes import python
from simulated_results import write_cell

from modtf import Study, launch
from modtf.analysis.report.sections import findings
from modtf.launch.cells import cells_of_flags
from modtf.launch.run import announce, command, main
from modtf.results import load_results

SCRIPT = Path(__file__).parents[2] / "launch" / "run.py"
TRAINED = ("monolithic", "modular")
SMALL = [
    "--set=evaluation.tokens=64", "--set=evaluation.batches=2", "--set=evaluation.tokens_per_draw=64",
    "--variant=monolithic,modular", "--rules=2", "--width=4", "--tasks=1", "--seeds=2", "--steps=1",
    "--batch_size=8", "--learning_rate=0.01",
]  # fmt: skip


def run(*arguments, script=(str(SCRIPT),), cwd=None):
    # JAX, imported by another test, sets it for all processes begun from here
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    environment["XLA_FLAGS"] = "--xla_backend_optimization_level=0"  # compiled quickly
    command = [sys.executable, *script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a finished run, and what the command printed."""
    out = tmp_path_factory.mktemp("run") / "ünï çødé mlp"
    result = run(*SMALL, f"--out={out}")
    assert result.returncode == 0, result.stderr[-3000:]
    return out, result.stdout, result.stderr


def test_it_trains_and_compares_variants(finished):
    out, printed, progress = finished
    lines = printed.splitlines()
    assert lines[0].startswith(
        "mlp_regression_r2_e4: 2 variants x 2 members, 1 steps at learning rate 0.01, cosine"
    )
    assert lines[0].endswith(str(out))
    rows = [line.split()[0] for line in lines if line.startswith((*TRAINED, "random"))]
    assert rows == [*TRAINED, "random"]
    assert "mean over 2 models of one task" in printed
    assert "out: inputs x 2." in printed
    assert "Measured on 512 new examples under each condition, fewer than usual" in printed
    assert progress.startswith("cells 0/2"), "progress in a file is lines, from the first moment"
    assert "cells 2/2 100%" in progress.splitlines()[-1]
    assert not {"warning", "Traceback"} & set(progress.replace(":", " ").split())
    assert all(f"{path.parent.name} finished" in progress for path in out.glob("*/results.csv"))
    assert lines[-1] == findings(Study.read(str(out)))[-1]
    (look,) = commands_in(printed)
    assert "scalars" in in_a_shell(f"{look} --inspect", out.parent)
    frame = load_results(str(out))
    assert set(frame["variant"]) == set(TRAINED)
    assert set(zip(frame["data_seed"], frame["seed"], strict=True)) == {(0, 0), (0, 1)}
    assert len(list(out.glob("tensorboard/m*/events*"))) == len(list(out.glob("mlp*")))


def test_data_that_are_not_there_are_one_line_before_anything_else(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    for asked in (
        ["--arch=vqa_mnist", "--set=task.digits=mnist"],
        ["--arch=corruptions", "--set=task.dataset=cifar10"],
    ):
        with pytest.raises(ValueError, match=r"^(mnist|cifar10) is not on this machine"):
            main(given(launch.run, *asked, f"--out={tmp_path / 'out'}"))
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "out").exists()


def test_options_of_some_variants_are_said(tmp_path, capsys):
    arguments = ["--arch=corruptions", f"--out={tmp_path}", "--set=trainer.strength=2", "--set=model.site=1"]
    values = given(launch.run, *arguments)
    announce(cells_of_flags(values), "label", tmp_path, values)
    said = capsys.readouterr().out
    assert "trainer.strength applies to contrastive, modular only." in said
    assert "model.site" not in said, "it applies to all"


def test_a_router_that_is_refused_does_not_stop_the_others(tmp_path, monkeypatch, capsys):
    """Here by the architecture; wrong options do, as any other flag."""
    ran = lambda cell, out, **how: write_cell(out, cell, num_evaluations=1)  # noqa: E731
    monkeypatch.setattr("modtf.engines.cell.run_cell", ran)
    asked = [*SMALL, "--arch=rnn", "--variant=expert_choice,gt_modular", f"--out={tmp_path / 'out'}"]
    with pytest.raises(ValueError, match=r"^left out: expert_choice. The reasons are printed above"):
        main(given(launch.run, *asked))
    said = capsys.readouterr().out
    assert "expert_choice is left out: The router ExpertChoice lets modules choose among all" in said
    assert "\ngt_modular " in said
    with pytest.raises(ValueError, match="cannot be built with temperature=0"):
        main(given(launch.run, *asked[:-2], "--variant=temperature,modular", "--set=router.temperature=0"))


def test_cells_of_another_version_are_kept_and_named_before_others_are_trained(tmp_path, monkeypatch, capsys):
    ran = lambda cell, out, **how: write_cell(out, cell, num_evaluations=1)  # noqa: E731
    monkeypatch.setattr("modtf.engines.cell.run_cell", ran)
    asked, out = given(launch.run, *SMALL, f"--out={tmp_path / 'out'}"), tmp_path / "out"
    first, second = cells_of_flags(asked)
    write_cell(out, first, num_evaluations=1, version="0.0.7")
    results = write_cell(out, second, num_evaluations=1) / "results.csv"
    results.write_bytes(results.read_bytes()[:-2])
    main(asked)
    said = capsys.readouterr().out
    assert said.count("1 cell finished by modtf 0.0.7, whose numbers may differ; they are kept") == 1
    assert said.count("is damaged") == 1


def test_a_start_that_a_variant_cannot_take_is_refused_before_others_are_trained(tmp_path, monkeypatch):
    def ran(cell, out, **how):
        raise AssertionError("trained")

    monkeypatch.setattr("modtf.engines.cell.run_cell", ran)
    asked = [
        *SMALL,
        "--variant=modular,gt_modular",
        "--workers=1",
        "--set=trainer.start=oracle",
        f"--out={tmp_path / 'out'}",
    ]
    with pytest.raises(ValueError, match="gt_modular: start='oracle' needs a learned router"):
        main(given(launch.run, *asked))
    assert not (tmp_path / "out").exists()


def test_again_it_prints_the_same_table_at_once(finished):
    """Runs as a module, without TensorFlow, which takes seconds to import."""
    out, printed, _ = finished
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    result = run(*SMALL, f"--out={out}", script=("-X", "importtime", "-m", "modtf.launch.run"))
    assert result.stdout == printed
    imported = {line.split("|")[-1].strip() for line in result.stderr.splitlines()}
    assert "pandas" in imported
    assert not imported & {"tensorflow", "keras"}
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_another_configuration_is_refused(finished):
    out, _, _ = finished
    result = run(*SMALL, "--learning_rate=0.1", f"--out={out}")
    words = f"--out={out} holds results of another configuration ({out / 'run.json'}): training."
    words += "learning_rate is 0.01 there and 0.1 here. Choose another folder."
    assert (result.returncode, result.stderr) == (1, f"run.py: error: {words}\n")


def test_help_has_examples_and_first_the_flags_that_people_use_first(call):
    _, shown, _ = call(command, "run.py", "--help")
    assert "    python launch/run.py --arch=mha --search=v2" in shown
    flags = [line.split("=")[0].strip() for line in shown.splitlines() if line.startswith("  --")]
    assert flags[:9] == [
        "--arch", "--variant", "--preset", "--out", "--rules", "--width", "--tasks", "--seeds", "--steps",
    ]  # fmt: skip
    assert {"--setting", "--set", "--search", "--target", "--plugin", "--checkpoint"} <= set(flags)
    assert max(map(len, shown.splitlines())) <= 110


@pytest.mark.slow
@pytest.mark.xla
def test_random_kills_lose_nothing():
    """A few, of `run` and of `sweep`; many more by hand."""
    loop = Path(__file__).with_name("kill_loop.py")
    environment = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    result = python(loop, "--kills=2", "--damages=20", "--steps=100", env=environment)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert "lost or different: nothing" in result.stdout
