"""`launch/sweep.py`: which cells flags mean, what is refused, and the real command at the smallest size."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from absl import flags

from modtf.cell import VARIANTS
from modtf.launch.cells import cells_of_flags, choose_cells
from modtf.launch.sweep import define_flags
from modtf.protocol import Protocol
from modtf.studies import load_study

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "launch" / "sweep.py"


def parse(*arguments):
    values = flags.FlagValues()
    define_flags(values)
    values(["sweep.py", *arguments])
    return values


def labels(*arguments):
    return [cell.label for cell in cells_of_flags(parse(*arguments))]


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False, **options
    )


def test_lists_are_combined():
    assert labels("--arch=mlp,rnn", "--rules=2,8", "--width=32", "--variant=modular,gt_modular") == [
        f"{arch}_regression_r{rules}_e32_{variant}"
        for arch in ("mlp", "rnn")
        for rules in (2, 8)
        for variant in ("modular", "gt_modular")
    ]


def test_what_is_not_given_is_the_quick_presets():
    cells = cells_of_flags(parse("--arch=mlp"))
    assert [cell.variant for cell in cells] == list(VARIANTS)
    assert all(cell.protocol == Protocol.quick(cell.task) for cell in cells)
    assert {(cell.task.num_rules, cell.width, len(cell.members)) for cell in cells} == {(8, 32, 5)}
    (paper,) = cells_of_flags(parse("--arch=mlp", "--variant=modular", "--preset=paper"))
    assert paper.protocol == Protocol.published(paper.task)


def test_options_go_to_those_that_know_them():
    arguments = (
        "--arch=mlp,mha",
        "--width=32",
        "--rules=2",
        "--search=v1,v2",
        "--variant=modular,monolithic",
    )
    assert labels(*arguments, "--set", "router.modules=3,4") == [
        f"{kind}_regression_r2_e32_{variant}"
        for kind in ("mlp", "mha_v1", "mha_v2")
        for variant in ("modular_modules-3", "modular_modules-4", "monolithic")
    ]


def test_the_protocol_can_be_changed():
    (cell,) = cells_of_flags(
        parse("--arch=rnn", "--variant=modular", "--steps=5", "--tasks=1", "--seeds=3", "--learning_rate=0.5",
              "--set=training.clipnorm=2", "--set=evaluation.draws=7", "--set=evaluation.conditions=scale2",
              "--set=model.cell=simple")
    )  # fmt: skip
    changes = {"steps": 5, "learning_rate": 0.5, "clipnorm": 2.0, "draws": 7, "conditions": ("scale2",)}
    assert cell.protocol == Protocol.quick(cell.task).replace(**changes)
    assert cell.members == ((0, 0), (0, 1), (0, 2))
    assert cell.model == {"cell": "simple"}


def test_flags_choose_among_the_cells_of_a_study():
    study = load_study("paper").cells
    chosen = choose_cells(study, parse("--study=paper", "--arch=mha", "--rules=2,8", "--width=64"))
    assert len(chosen) == 2 * 2 * 2 * 4
    assert {cell.task.num_rules for cell in chosen} == {2, 8}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Give --study=NAME, or say at least --arch"),
        (["--arch=cnn"], "--arch='cnn' is not known; expected one of mlp, mha, rnn"),
        (["--arch=mlp", "--rules=two"], "--rules=two: expected whole numbers"),
        (["--arch=mlp", "--rules=1"], "--rules=1 is not valid"),
        (["--arch=mlp", "--width=0"], "width=0 is not valid"),
        (["--arch=mlp", "--variant=none"], "--variant='none' is not known"),
        (["--arch=mlp", "--setting=ranking"], "setting='ranking' is not known"),
        (["--arch=mlp", "--search=v2"], "search='v2' has no meaning for arch='mlp', whose options are: none"),
        (["--arch=mlp", "--set=router.colour=1"], "--set router.colour is not known"),
        (["--arch=mlp", "--tasks=0"], "tasks=0 is not valid"),
    ],
)
def test_what_has_no_meaning(arguments, words):
    with pytest.raises(ValueError, match=words):
        cells_of_flags(parse(*arguments))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--steps=5"], "--steps cannot be given with --study"),
        (["--set=training.steps=5"], "--set cannot be given with --study"),
        (["--search=v2"], "--search cannot be given with --study"),
        (["--rules=3"], "--rules=3 is not known; expected one of 2, 4, 8, 16, 32"),
    ],
)
def test_what_a_study_does_not_allow(arguments, words):
    with pytest.raises(ValueError, match=words):
        choose_cells(load_study("paper").cells, parse("--study=paper", *arguments))


def test_errors_are_one_line(tmp_path):
    study = tmp_path / "narrow_study.py"
    study.write_text(
        "from modtf.studies import grid\nCELLS = grid(arch='mlp', num_rules=32, width=2).cells()\n"
    )
    for arguments, words in [
        ([f"--study={study}"], "1 of 1 cells cannot run"),
        (["--study=testing", "--shard=3/3"], "--shard=3/3: expected i/n"),
        (["--study=testing", "--workers=0"], "workers=0 is not valid"),
        (["--study=testing", "--engine=cloud"], "cloud"),
    ]:
        result = run(*arguments, f"--out={tmp_path / 'out'}")
        assert result.returncode == 1
        assert words in result.stderr
        assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


STUDY = """
'''One cell that works, and one that does not.'''
import keras
import modtf
from modtf.studies import grid
from modtf.protocol import Protocol
from modtf.studies.testing import EVALUATION, TRAINING


@modtf.register_router("broken")
class Broken(modtf.models.Router):
    def call(self, rule=None, rule_features=None, scores=None):
        raise RuntimeError("no route")


PROTOCOL = Protocol(TRAINING, EVALUATION)
SMALL = grid(arch="mlp", num_rules=2, width=4, protocol=PROTOCOL, members=((0, 0), (1, 1)))
CELLS = (SMALL * grid(variant=["gt_modular", "broken"])).cells()
"""


def test_the_whole_command(tmp_path):
    """A study file with a router of its own; real training; a failure; again; a preview."""
    study, out = tmp_path / "my_own_study.py", tmp_path / "ünï çødé out"
    study.write_text(STUDY.replace("import modtf\n", "import modtf\nimport modtf.models\n"))
    arguments = (f"--study={study}", f"--out={out}", "--workers=1")
    environment = {**os.environ, "MODTF_CACHE": str(tmp_path / "cache")}
    first = run(*arguments, env=environment)
    assert first.returncode == 1, first.stderr[-3000:]
    assert "my_own_study: 2 cells, 4 models." in first.stdout
    assert "1 cells finished now, 0 before, 1 failed." in first.stdout
    assert "no route" in first.stdout
    assert "cells 2/2, 1 failed" in first.stderr
    again = run(*arguments, env=environment)
    assert again.returncode == 1
    assert "0 cells finished now, 1 before, 1 failed." in again.stdout
    assert "--retry_failed runs them again" in again.stdout
    preview = run(*arguments, "--dry_run", "--variant=gt_modular", env=environment)
    assert preview.returncode == 0, preview.stderr[-3000:]
    assert "mlp_regression_r2_e4_gt_modular       2          4" in preview.stdout
    assert "1 cells (1 finished), 2 models" in preview.stdout
