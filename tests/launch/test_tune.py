"""`launch/tune.py`: what it refuses, and the real command at the smallest size, used by run and sweep."""

import shlex

import cheap
import processes
import pytest
from dummy import Here
from flag_values import given
from printed_commands import commands_in, in_a_shell
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

from modtf.launch import run, sweep, tune
from modtf.launch.cells import cells_given, cells_of_flags
from modtf.launch.set_options import with_best
from modtf.results import load_results
from modtf.tuning import load_trials

PLUGIN = processes.ROOT / "examples" / "plugin" / "my_plugin.py"
CELL = [
    f"--plugin={PLUGIN}", "--variant=my_router", "--set=router.strength=0.1", "--rules=2", "--width=4",
    "--tasks=2", "--seeds=1", "--steps=2", "--batch_size=8", "--set=training.evaluations=1",
    "--set=evaluation.conditions=scale2", "--set=evaluation.batches=1", "--set=evaluation.batch_size=8",
    "--set=evaluation.tokens=64", "--set=evaluation.draws=2", "--set=evaluation.tokens_per_draw=64",
]  # fmt: skip

STUDY = '''"""Two of one variant."""
from modtf.studies import grid
CELLS = grid(num_rules=4, width=8, variant="top_k", members=((7, 0),), **{"router.k": [1, 2]}).cells()
'''


@pytest.fixture
def tuned(tmp_path, monkeypatch, capsys):
    """tuned(*arguments): the folder of a tuning whose trials cost nothing, and what the command printed."""
    monkeypatch.setattr("modtf.engines.cell.train_and_report", cheap.train)
    monkeypatch.setattr(tune, "engine_of", lambda *_: Here())

    def run_it(*arguments):
        tune.main(given(tune, *arguments, f"--out={tmp_path / 'ünï çødé'}"))
        return tmp_path / "ünï çødé", capsys.readouterr().out

    return run_it


def cells_used(said):
    """The cells that it trains."""
    (line,) = [line for line in commands_in(said) if line.startswith("modtf ")]
    _, command, *flags = shlex.split(line)
    values = given({"run": run, "sweep": sweep}[command], *flags)
    return with_best(cells_given(values)[1] if command == "sweep" else cells_of_flags(values), values)


def test_the_whole_command(tuned):
    _, said = tuned("--arch=mlp", "--variant=modular,top_k", "--space=learning_rate=0.01,0.001",
                      "--set=router.k=2", "--tasks=2", "--seeds=1", "--width=8",
                      "--form=network")  # fmt: skip
    assert said.startswith(
        "mlp_network_regression_r8_e8_modular: grid, learning_rate=0.01,0.001. Writing to "
    )
    assert said.count("validation loss") == said.count("over 2 tasks, 2 members in every trial") == 2
    assert said.count("\nThe best trial has its learning_rate at the edge of its range; tune again") == 2
    cells = cells_used(said)
    found = [(cell.variant, cell.width, dict(cell.router)) for cell in cells]
    assert found == [("modular", 8, {}), ("top_k", 8, {"k": 2})]
    assert {cell.task.form for cell in cells} == {"network"}
    assert {cell.protocol.training.learning_rate for cell in cells} == {0.001}


def test_a_search_without_the_rate_and_one_of_keras_tuner(tuned):
    _, said = tuned("--variant=top_k", "--learning_rate=0.01", "--space=router.k=1,2", "--rules=2",
                      "--oracle=bayesian", "--trials=2")  # fmt: skip
    assert "top_k trial 1, k=" in said
    (cell,) = cells_used(said)
    assert (cell.protocol.training.learning_rate, set(cell.router)) == (0.01, {"k"})


def test_every_cell_of_a_study_is_tuned(tuned, tmp_path):
    study = tmp_path / "study.py"
    study.write_text(STUDY)
    out, said = tuned(f"--study={study}", "--space=learning_rate=0.01,0.001")
    assert set(load_trials(out)["data_seed"]) == {7}
    assert set(load_trials(out)["learning_rate"]) == {0.01, 0.001, 3.162e-4}, "and half a step below the best"
    found = [(dict(cell.router), cell.protocol.training.learning_rate) for cell in cells_used(said)]
    assert found == [({"k": 1}, 0.001), ({"k": 2}, 0.001)]


def test_a_trial_that_failed_is_the_status_of_the_command(tuned):
    with pytest.raises(ValueError, match=r"1 trial.* failed. Their folders hold error"):
        tuned("--variant=modular", "--space=learning_rate=0.05")


def test_reported_tasks_and_unequal_numbers_of_trials_are_said(tuned, capsys, tmp_path):
    study = tmp_path / "other_tasks.py"
    study.write_text(STUDY)  # task 7
    flags = "--rules=4", "--width=8", "--tasks=2", "--seeds=1"
    out, _ = tuned("--variant=modular,switch", *flags, "--points=2", "--space=router.strength=0.1,0.2")

    def said(*arguments):
        values = given(run, *arguments, f"--best={out}")
        with_best(cells_of_flags(values), values)
        return capsys.readouterr().out.splitlines()

    lines = said("--variant=modular,switch", *flags[:2], "--tasks=3")
    assert lines[2].startswith("Tuned on tasks that are also reported: 0, 1. To tune on others, give")
    assert lines[3].startswith("Unequal numbers of trials: 3 of modular; 5 of switch. Give tune")
    assert len(said("--variant=modular", *flags)) == 2
    tuned(f"--study={study}", "--space=learning_rate=0.1,0.01")
    assert len(said("--variant=top_k", *flags, "--set=router.k=1")) == 1


@pytest.mark.slow
def test_the_real_command_and_the_one_that_it_prints(tmp_path):
    """Given what it was given, without a default option too: the shell runs it."""
    out = tmp_path / "ünï çødé out"
    done = processes.command("tune", *CELL, "--space=learning_rate=0.02", f"--out={out}")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "keras" not in (done.stdout + done.stderr).lower()
    trials, results = load_trials(out), load_results(out)
    assert set(trials["learning_rate"]) == {0.02}
    assert set(results["folder"]) == set(trials["folder"])
    assert set(results["variant"]) == {"my_router"}
    assert {text.partition("@")[2] for text in results["protocol"]} == {"0.02"}
    for events in out.glob("tensorboard/*/events*"):
        (summary,) = [event for event in RawEventFileLoader(str(events)).Load() if b"session_start" in event]
        assert b"learning_rate" in summary, "HParams"
    as_printed, _ = commands_in(done.stdout)
    without = as_printed.replace(CELL[2], "--out=without")
    assert "strength" not in without
    for command in (as_printed, without):
        done = in_a_shell(command, tmp_path)
        assert "my_router of mlp_regression: learning_rate=0.02 (best of 1 trial, " in done
        assert "2 steps at the rates found, cosine (preset quick)" in done
        assert any(line.startswith("my_router ") and "±" in line for line in done.splitlines())


def test_sweep_uses_what_was_found_and_run_does_not_mix_it_with_others(tuned, capsys, tmp_path):
    asked = cells_of_flags(given(run, "--variant=modular"))
    (tmp_path / run.RUN).write_text(run.check_folder(tmp_path, asked, "runs/tuning"))
    run.check_folder(tmp_path, asked, "runs/tuning")
    with pytest.raises(ValueError, match="holds results of another configuration"):
        run.check_folder(tmp_path, asked)
    out, _ = tuned("--variant=modular", "--space=learning_rate=0.02")
    values = given(sweep, "--arch=mlp", "--rules=2,4", "--variant=modular", f"--best={out}")
    cells = with_best(cells_of_flags(values), values)
    assert [cell.protocol.training.learning_rate for cell in cells] == [0.02] * 2
    assert [cell.task.num_rules for cell in cells] == [2, 4]
    said = capsys.readouterr().out
    assert said.count("modular of mlp_regression") == 1
    assert "; tuned at R = 8" in said, "another number of rules than that of the search"
    other = ["--set=training.weight_decay=0.1", "--set=training.clipnorm=5"]
    values = given(sweep, "--arch=mlp", "--rules=8", "--variant=modular", f"--best={out}", *other)
    with_best(cells_of_flags(values), values)
    assert "; tuned at weight decay 0, clipnorm None" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--variant=modular,monolithic"], "it holds no search of monolithic of mlp_regression, only of"),
        (["--variant=modular", "--learning_rate=0.1"], "--best and a learning rate cannot both be given"),
        (["--variant=modular", "--set=training.learning_rate=0.1"], "--best and a learning rate cannot both"),
    ],
)
def test_what_best_cannot_do(tuned, arguments, words):
    out, _ = tuned("--variant=modular", "--space=learning_rate=0.02")
    values = given(run, *arguments, f"--best={out}")
    with pytest.raises(ValueError, match=words):
        with_best(cells_of_flags(values), values)
