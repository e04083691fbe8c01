"""One file outside the package adds to all of it: the real commands, with examples/plugin/my_plugin.py."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from processes import ROOT
from processes import succeeds as finish

pytestmark = pytest.mark.slow  # whole commands, one of which is killed

PLUGIN = ROOT / "examples" / "plugin" / "my_plugin.py"
RUN, REPORT = (str(ROOT / "launch" / f"{name}.py") for name in ("run", "report"))

SMALL = [
    "--arch=my_family", "--wave=tent", "--rules=3", "--width=4", "--tasks=2", "--seeds=1", "--batch_size=8",
    "--steps=12", "--set=training.evaluations=12", "--set=evaluation.tokens=64", "--set=evaluation.batches=2",
    "--set=evaluation.draws=2", "--set=evaluation.tokens_per_draw=64", "--set=router.strength=0.5",
    "--variant=modular,my_router",
]  # fmt: skip


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """The file, in a folder where nothing of modtf is."""
    folder = tmp_path_factory.mktemp("elsewhere")
    shutil.copy(PLUGIN, folder)
    return folder / PLUGIN.name


def start(*command, **options):
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *command], **options)


def kill_at(out, pattern, *command):
    """Kills the command as soon as it has written such a file."""
    process = start(*command)
    deadline = time.monotonic() + 600
    while not list(out.glob(pattern)):
        assert process.poll() is None, process.communicate()[1][-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.communicate()


@pytest.fixture(scope="module")
def straight(plugin, tmp_path_factory):
    """The folder of an uninterrupted run, and what the command printed."""
    out = tmp_path_factory.mktemp("runs") / "straight"
    return out, finish(RUN, f"--plugin={plugin}", *SMALL, f"--out={out}")


@pytest.fixture(scope="module")
def resumed(plugin, tmp_path_factory):
    """The folder of a run of the user's router that was killed in the middle of training, and resumed."""
    out = tmp_path_factory.mktemp("runs") / "resumed"
    command = [RUN, f"--plugin={plugin}", *SMALL, "--variant=my_router", f"--out={out}"]
    kill_at(out, "*/checkpoint.npz", *command)
    assert not list(out.glob("*/results.csv")), "it was killed too late"
    finish(*command)
    return out


@pytest.fixture(scope="module")
def report(plugin, straight, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    finish(REPORT, f"--plugin={plugin}", f"--results={straight[0]}", f"--out={out}")
    return out


def results(out):
    frame = pd.concat(
        [pd.read_csv(path, keep_default_na=False) for path in sorted(out.glob("*/results.csv"))],
        ignore_index=True,
    )
    return frame[~frame["measure"].isin(["seconds", "members_times_steps_per_second"])]


def test_the_table_shows_all_of_it(straight):
    _, printed = straight
    assert printed.startswith("my_family_tent_regression_r3_e4: 2 variants x 2 members")
    assert "router.strength applies to my_router only." in printed
    assert "my measure" in printed
    assert "out: inputs x 3" in printed
    rows = [line.split()[0] for line in printed.splitlines() if " ±" in line and "interval" not in line]
    assert rows == ["modular", "my_router"]


def test_results_hold_all_of_it(straight):
    frame = results(straight[0])
    mine = frame[frame["variant"] == "my_router"]
    assert set(frame["arch"]) == {"my_family"}
    assert set(frame["task_options"]) == {"wave=tent"}
    assert set(frame["condition"]) == {"iid", "scale3"}
    assert set(mine["num_modules"]) == {6}
    assert set(mine["model_options"]) == {"strength=0.5"}
    assert {"my_measure", "unevenness"} <= set(mine["measure"])
    assert "unevenness" not in set(frame[frame["variant"] == "modular"]["measure"])
    assert np.isfinite(mine["value"].astype(float)).all()


def test_a_killed_run_resumes_to_the_same_results(straight, resumed):
    frame = results(straight[0])
    mine = frame[frame["variant"] == "my_router"].reset_index(drop=True)
    pd.testing.assert_frame_equal(results(resumed).reset_index(drop=True), mine)


def test_tensorboard_shows_all_of_it(straight):
    (events,) = straight[0].glob("tensorboard/my_router*/events*")
    tags = set(re.findall(rb"[\w/]*(?:my_measure|unevenness|loss_scale3)", events.read_bytes()))
    for name in (b"my_measure", b"unevenness", b"loss_scale3"):
        assert any(tag.endswith(name) for tag in tags), (name, tags)


def test_the_report_shows_all_of_it(report):
    page = (report / "report.html").read_text()
    for words in ("Waves", "my_router", "Indecision"):
        assert words in page, words
    assert (report / "figures" / "my_figure.png").read_bytes().startswith(b"\x89PNG")
    drawn = pd.read_csv(report / "tables" / "my_figure.csv")
    assert list(drawn["variant"]) == ["modular", "my_router (strength=0.5)"]
    bars = pd.read_csv(report / "tables" / "collapse_and_specialisation_bars.csv")
    assert "my_measure" in set(bars["measure"])


ROUTER = """
import modtf
from modtf.models import Router

@modtf.register_router("{name}")
class Mine(Router):
    {body}
"""
BAD = {
    "raises": ("import modtf\n\nfast = 1 / 0\n", "failed in line 3: ZeroDivisionError: division by zero"),
    "clashes": (
        ROUTER.format(name="modular", body="def call(self, rule=None, rule_features=None, scores=None): ..."),
        "The variant 'modular', registered by clashes:Mine, exists already",
    ),
    "lacks": (
        ROUTER.format(name="mine", body="needs_scores = True"),
        "The router 'mine' does not define call(",
    ),
}


@pytest.mark.parametrize(("command", "name"), [*((RUN, name) for name in BAD), (REPORT, "raises")])
def test_a_bad_plugin_is_one_clear_line(command, name, tmp_path):
    text, expected = BAD[name]
    (tmp_path / f"{name}.py").write_text(text)
    process = start(command, f"--plugin={tmp_path / name}.py", f"--out={tmp_path / 'out'}", cwd=tmp_path)
    printed, said = process.communicate()
    assert (process.returncode, printed) == (1, "")
    (line,) = said.splitlines()
    assert line.startswith(f"{Path(command).name}: error: The plug-in '{tmp_path / name}.py' failed")
    assert expected in line
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix) == [f"{name}.py"]
    assert not (tmp_path / "out").exists()
