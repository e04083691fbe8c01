import subprocess
import sys
from pathlib import Path

import pytest
from simulated_results import simulate

from modtf.analysis.claims import CLAIMS

REPORT = Path(__file__).parents[2] / "launch" / "report.py"


def run(*arguments):
    return subprocess.run([sys.executable, REPORT, *arguments], capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def study_folder(tmp_path_factory):
    return simulate(tmp_path_factory.mktemp("study"), settings=["regression"], rules=[2], num_evaluations=2)


def test_the_command(study_folder, tmp_path):
    out = tmp_path / "r"
    result = run(f"--results={study_folder}", f"--out={out}", "--claims", "--figures=ranking")
    assert result.returncode == 0, result.stderr
    for claim in CLAIMS:
        assert CLAIMS[claim].text in result.stdout
    assert "No cell missing" in result.stdout
    assert f"Wrote {out / 'report.html'}" in result.stdout
    assert "figures: 100%" in result.stderr
    assert (out / "figures" / "ranking.png").exists()
    assert (out / "report.html").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--results=absent", "--out=out"], "no folder 'absent'"),
        (["--results=,", "--out=out"], "Give --results=DIR"),
        (["--results=absent"], "--out=DIR"),
        (["--results=absent", f"--out={__file__}"], "cannot be written"),
        (["--results=absent", "--out=out", "--figures=pie_in_the_sky"], "ranking_pies"),
        (["--results=absent", "--out=out", "--checkpoint=worst"], "tail|last|best|pooled"),
    ],
)
def test_bad_flags_are_one_line_and_leave_nothing(flags, words, tmp_path):
    result = subprocess.run([sys.executable, REPORT, *flags], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 1
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
