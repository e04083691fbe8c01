"""`launch/sweep.py`: what is refused, and the real command at the smallest size."""

from functools import partial

import processes
import pytest
from dummy import Here
from flag_values import given
from printed_commands import commands_in, in_a_shell
from simulated_results import write_cell

from modtf.analysis import find_missing
from modtf.launch import sweep
from modtf.launch.sweep import command

run = partial(processes.command, "sweep")


def test_a_study_that_cannot_run_is_refused(call, tmp_path):
    study = tmp_path / "narrow_study.py"
    cells = "grid(arch='mlp', num_rules=32, width=2).cells()"
    study.write_text(f"from modtf.studies import grid\nCELLS = {cells}\n")
    status, _, error = call(command, "sweep.py", f"--study={study}", f"--out={tmp_path / 'out'}")
    assert status == 1
    assert error.startswith("sweep.py: error: ")
    assert "1 of 1 cell cannot run" in error
    assert not (tmp_path / "out").exists()


def test_the_command_that_it_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("modtf.engines.cell.train_and_report", lambda cell, out, _: write_cell(out, cell))
    monkeypatch.setattr(sweep, "engine_of", lambda *_: Here())
    cell = "--arch=mlp", "--variant=modular", "--rules=2", "--tasks=2", "--seeds=1"
    sweep.main(given(sweep, *cell, f"--out={tmp_path / 'ünï çødé out'}"))
    printed = capsys.readouterr().out
    assert printed.startswith("sweep: 1 cell, 2 models. Writing to ")
    (line,) = commands_in(printed)
    assert "Wrote " in in_a_shell(f"{line} --figures=activation", tmp_path)


def test_a_report_knows_the_cells_of_other_shards(tmp_path, monkeypatch):
    monkeypatch.setattr("modtf.engines.cell.train_and_report", lambda cell, out, _: write_cell(out, cell))
    monkeypatch.setattr(sweep, "engine_of", lambda *_: Here())
    cells = "--arch=mlp", "--variant=modular", "--rules=2,4,8", "--tasks=1", "--seeds=1"
    asked = given(sweep, *cells, f"--out={tmp_path / 'out'}", "--shard=0/2")
    sweep.main(asked)
    assert find_missing(tmp_path / "out")["num_rules"].tolist() == [4]


STUDY = """
'''One cell that works, and one that does not.'''
import keras
import modtf
from modtf.studies import grid
from modtf.tasks.protocol import Protocol
from modtf.experiments.modarch.studies.testing import EVALUATION, TRAINING


@modtf.register_router("broken")
class Broken(modtf.models.Router):
    def call(self, rule=None, rule_features=None, scores=None):
        raise RuntimeError("no route")


PROTOCOL = Protocol(TRAINING, EVALUATION)
SMALL = grid(arch="mlp", num_rules=2, width=4, protocol=PROTOCOL, members=((0, 0), (1, 1)))
CELLS = (SMALL * grid(variant=["gt_modular", "broken"])).cells()
"""


@pytest.mark.slow
def test_the_whole_command(tmp_path):
    """A study file with a router of its own; real training; a failure; again; a preview."""
    study, out = tmp_path / "my_own_study.py", tmp_path / "ünï çødé out"
    study.write_text(STUDY.replace("import modtf\n", "import modtf\nimport modtf.models\n"))
    arguments = (f"--study={study}", f"--out={out}", "--workers=1")
    environment = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}  # compiled quickly
    first = run(*arguments, env=environment)
    assert first.returncode == 1, first.stderr[-3000:]
    assert "my_own_study: 2 cells, 4 models." in first.stdout
    assert "1 cell finished now, 0 before, 1 failed." in first.stdout
    assert "no route" in first.stdout
    again = run(*arguments, env=environment)
    assert again.returncode == 1
    assert "0 cells finished now, 1 before, 1 failed." in again.stdout
    assert "--retry_failed runs them" in again.stdout
    preview = run(*arguments, "--dry_run", "--variant=gt_modular", env=environment)
    assert preview.returncode == 0, preview.stderr[-3000:]
    assert "mlp_regression_r2_e4_gt_modular       2          4" in preview.stdout
    assert "1 cell (1 finished), 2 models" in preview.stdout
    assert "The 1 cell finished so far took" in preview.stdout
