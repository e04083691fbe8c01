"""`launch/scorecard.py`: what it refuses, and the real command with a few steps."""

import json
from pathlib import Path

import processes
import pytest
from flag_values import given

from modtf.experiments.modarch.studies.scorecard import FULL, RATES, SMOKE, TUNED_ON
from modtf.launch import scorecard

PLUGIN = processes.ROOT / "examples" / "plugin" / "my_plugin.py"


def test_options_go_to_your_router():
    values = given(scorecard, "--variant=top_k", "--set=router.k=2", "--set=router.modules=4")
    trials = scorecard.own_trials(FULL, "top_k", scorecard.settings_given(values))
    assert {arch: list(of_arch) for arch, of_arch in trials.items()} == {a: list(r) for a, r in RATES.items()}
    cells = [cell for of_arch in trials.values() for cell in of_arch.values()]
    assert all(cell.router == {"k": 2, "modules": 4} for cell in cells)
    assert all([task for task, _ in cell.members] == list(TUNED_ON) for cell in cells)


def test_a_kind_that_refuses_your_router_is_left_out(tmp_path):
    """A recurrence has not seen all tokens, among which modules would choose."""
    trials = scorecard.own_trials(SMOKE, "expert_choice", scorecard.settings_given(given(scorecard)))
    built, refused = scorecard.buildable(trials, tmp_path)
    assert list(built) == ["mlp"]
    assert "a recurrence has seen only the tokens so far" in refused["rnn"]


@pytest.mark.parametrize("arch", ["mlp", "rnn"])
def test_a_family_that_diverges_at_every_rate_is_left_out(arch, tmp_path, monkeypatch):
    def search_of(trials, _):
        columns = next(iter(trials.values())).columns
        loss = None if columns["arch"] == arch else 1.0
        losses = {f"{rate:g}": loss for rate in trials}
        return {name: columns[name] for name in ("arch", "variant", "model_options")} | {"losses": losses}

    monkeypatch.setattr("modtf.experiments.modarch.scorecard.search.search_of", search_of)
    trials = scorecard.own_trials(FULL, "modular", scorecard.settings_given(given(scorecard)))
    search, refused = scorecard.found(trials, tmp_path)
    assert [line["arch"] for line in search] == [name for name in ("mlp", "rnn") if name != arch]
    assert f"modular diverged in the {arch} at every learning rate" in refused[arch]
    with pytest.raises(ValueError, match="diverged"):
        scorecard.found({arch: trials[arch]}, tmp_path)


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ([], "modtf-2_modular"),
        (["--set=router.modules=3"], "modtf-2_modular_modules-3"),
        (["--set=model.cell=simple"], "modtf-2_modular_cell-simple"),  # an option of the rnn alone
    ],
)
def test_cards_of_other_options_have_other_folders(setting, name):
    trials = scorecard.own_trials(FULL, "modular", scorecard.settings_given(given(scorecard, *setting)))
    assert scorecard.usual_folder(FULL, "modular", trials) == Path("runs", name)


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
    assert card["version"] == "modtf-2-smoke"
    assert [(line["arch"], list(line["losses"])) for line in card["search"]] == [
        (arch, [f"{rate:g}" for rate in rates]) for arch, rates in SMOKE.rates.items()
    ]
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
