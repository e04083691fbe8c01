"""`launch/tune.py`: what it refuses, and the real command at the smallest size, used by run and sweep."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from absl import flags
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

from modtf.launch import run, sweep, tune
from modtf.launch.best import with_best
from modtf.launch.cells import cells_of_flags
from modtf.results import load_results
from modtf.tuning import load_trials

ROOT = Path(__file__).parents[2]
CELL = [
    "--arch=mlp", "--variant=modular", "--rules=2", "--width=4", "--tasks=2", "--seeds=1", "--steps=2",
    "--batch_size=8", "--set=training.evaluations=1", "--set=evaluation.conditions=scale2",
    "--set=evaluation.batches=1", "--set=evaluation.batch_size=8", "--set=evaluation.tokens=64",
    "--set=evaluation.draws=2", "--set=evaluation.tokens_per_draw=64",
]  # fmt: skip


def given(command, *arguments):
    values = flags.FlagValues()
    command.define_flags(values)
    values(["command", *arguments])
    return values


def call(name, *arguments, **environment):
    return subprocess.run(
        [sys.executable, str(ROOT / "launch" / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rules=1"], "--rules=1 is not valid"),
        (["--variant=none"], "--variant='none' is not known"),
        (["--points=1"], "--points=1 is not valid; expected an integer of at least 2"),
        (["--trials=0"], "--trials=0 is not valid"),
        (["--oracle_seed=0"], "--oracle_seed=0 is not valid"),
        (["--space=learning_rate=2:1"], "the first number must be below the second"),
        (
            ["--space=learning_rate=1e-4,1e-3", "--learning_rate=0.1"],
            "--space learning_rate and a single one",
        ),
        (["--learning_rate=0.1", "--variant=modular"], "Nothing can be tuned of 'modular'"),
        (["--space=router.k=1,2", "--variant=modular"], "--space router.k is not known"),
        (["--space=router.k=1,9", "--variant=top_k", "--rules=2"], "k=9 is more than the 2 modules"),
    ],
)
def test_what_is_refused_before_anything_is_written(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=words):
        tune.main(given(tune, *arguments))
    assert list(tmp_path.iterdir()) == []


def test_errors_are_one_line(tmp_path):
    done = call("tune", "--space=learning_rate=0:1:log", f"--out={tmp_path / 'out'}")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("tune.py: error: --space learning_rate=0:1:log: '0:1:log': a logarithmic scale")
    done = call("tune", f"--out={tmp_path / 'out'}", KERASTUNER_ORACLE_IP="127.0.0.1")
    assert done.returncode == 1
    assert "KERASTUNER_TUNER_ID and KERASTUNER_ORACLE_PORT must be set, too" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """The folder of a real tuning of one trial, and what the command printed."""
    out = tmp_path_factory.mktemp("tuning") / "ünï çødé out"
    cache = str(tmp_path_factory.mktemp("cache"))
    done = call("tune", *CELL, "--space=learning_rate=0.02", f"--out={out}", MODTF_CACHE=cache)
    assert done.returncode == 0, done.stderr[-3000:]
    return out, done


def test_the_whole_command(tuned):
    out, done = tuned
    lines = done.stdout.splitlines()
    assert lines[0].startswith("mlp_regression_r2_e4_modular: grid, learning_rate=0.02. Writing to ")
    assert lines[1].startswith("modular trial 0, learning_rate=0.02: loss ")
    assert "validation loss" in done.stdout
    assert "over 2 tasks, 2 members in every trial" in done.stdout
    assert f"Use it: modtf run --arch=mlp --variant=modular --best={out}" in lines
    assert "keras" not in done.stdout.lower()
    assert "keras" not in done.stderr.lower()


def test_trials_are_cells_as_all_others(tuned):
    out, _ = tuned
    trials, results = load_trials(out), load_results(out)
    assert set(trials["learning_rate"]) == {0.02}
    assert set(results["folder"]) == set(trials["folder"])
    assert set(results["variant"]) == {"modular"}
    assert {text.partition("@")[2] for text in results["protocol"]} == {"0.02"}
    for events in out.glob("*/tensorboard/events*"):
        (summary,) = [event for event in RawEventFileLoader(str(events)).Load() if b"session_start" in event]
        assert b"learning_rate" in summary, "HParams"


def test_run_uses_what_was_found(tuned):
    """In the same folder, by the same protocol: the best trial is the cell that is wanted."""
    out, _ = tuned
    done = call("run", *CELL, f"--best={out}", f"--out={out}")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "modular of mlp_regression: learning_rate=0.02 (best of 1 trial, " in done.stdout
    assert "2 steps at the rates found (preset quick)" in done.stdout
    assert any(line.startswith("modular ") and "±" in line for line in done.stdout.splitlines())


def test_cells_with_and_without_what_was_found_are_not_mixed(tmp_path):
    cells = cells_of_flags(given(run, *CELL))
    (tmp_path / run.RUN).write_text(run.check_folder(tmp_path, cells, "runs/tuning"))
    run.check_folder(tmp_path, cells, "runs/tuning")
    with pytest.raises(ValueError, match="holds another configuration"):
        run.check_folder(tmp_path, cells)


def test_sweep_uses_what_was_found(tuned, capsys):
    out, _ = tuned
    values = given(sweep, "--arch=mlp", "--rules=2,4", "--variant=modular", f"--best={out}")
    cells = with_best(cells_of_flags(values), values)
    assert [cell.protocol.training.learning_rate for cell in cells] == [0.02] * 2
    assert [cell.task.num_rules for cell in cells] == [2, 4]
    assert capsys.readouterr().out.count("modular of mlp_regression") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--variant=modular,monolithic"],
            "nothing was found for monolithic of mlp_regression, only for modular of",
        ),
        (["--variant=modular", "--learning_rate=0.1"], "--best and a learning rate cannot both be given"),
        (["--variant=modular", "--set=training.learning_rate=0.1"], "--best and a learning rate cannot both"),
    ],
)
def test_what_best_cannot_do(tuned, arguments, words):
    values = given(run, *arguments, f"--best={tuned[0]}")
    with pytest.raises(ValueError, match=words):
        with_best(cells_of_flags(values), values)


def test_a_folder_that_nobody_tuned_in(tmp_path):
    done = call("run", f"--best={tmp_path}", f"--out={tmp_path / 'out'}")
    assert (done.returncode, done.stdout) == (1, "")
    assert "holds no search" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
