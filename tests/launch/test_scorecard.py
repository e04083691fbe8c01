"""`launch/scorecard.py`: what it refuses, and the real command with a few steps."""

import json
from types import SimpleNamespace

import processes
import pytest
from flag_values import given

from modtf.cell import Cell
from modtf.launch import scorecard

PLUGIN = processes.ROOT / "examples" / "plugin" / "my_plugin.py"


def test_options_go_to_your_router():
    values = given(scorecard, "--variant=top_k", "--set=router.k=2", "--set=router.modules=4")
    cells = scorecard.own_cells(scorecard.FULL, "top_k", scorecard.settings_given(values))
    assert [(cell.task.arch, cell.router) for cell in cells] == [
        ("mlp", {"k": 2, "modules": 4}),
        ("rnn", {"k": 2, "modules": 4}),
    ]


def test_a_kind_that_refuses_your_router_is_left_out(tmp_path, monkeypatch):
    """A recurrence has not seen all tokens, among which modules would choose."""
    trained: list[Cell] = []

    def run_study(cells, *_):
        trained.extend(cells)
        return SimpleNamespace(is_good=True)

    monkeypatch.setattr("modtf.engines.run_study.run_study", run_study)
    cells = scorecard.own_cells(scorecard.SMOKE, "expert_choice", scorecard.settings_given(given(scorecard)))
    built, refused = scorecard.train(cells, tmp_path, [])
    assert [cell.task.arch for cell in built] == [cell.task.arch for cell in trained] == ["mlp"]
    assert "a recurrence has seen only the tokens so far" in refused["rnn"]


@pytest.mark.slow
def test_the_whole_command(tmp_path):
    """The command runs twice; the second time everything is trained already."""
    out = tmp_path / "ours"
    arguments = [f"--plugin={PLUGIN}", "--variant=my_router", "--smoke", f"--out={out}"]
    said = processes.command("scorecard", *arguments)
    assert said.returncode == 0, said.stderr[-3000:]
    assert "SMOKE" in said.stdout
    assert "SMOKE" in (out / "scorecard.html").read_text()
    first = (out / "scorecard.json").read_bytes()
    card = json.loads(first)
    assert card["version"] == "modtf-1-smoke"
    assert [row["variant"] for row in card["rows"]] == 10 * ["my_router"]
    theirs = tmp_path / "theirs.json"
    theirs.write_bytes(first)
    (out / "scorecard.json").unlink()
    again = processes.command("scorecard", *arguments, f"--compare={theirs}")
    assert again.returncode == 0, again.stderr[-3000:]
    assert (out / "scorecard.json").read_bytes() == first
    assert "my_router (theirs)" in again.stdout
    refused = processes.command("scorecard", "--variant=modular", f"--compare={theirs}", f"--out={out}2")
    assert refused.returncode == 1
    assert refused.stderr.startswith("scorecard.py: error: ")
    assert "versions cannot be compared" in refused.stderr
    assert not (tmp_path / "ours2").exists()
