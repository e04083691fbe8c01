"""`launch/report.py`, and `launch/scorecard.py`: what it refuses, and the real command with a few steps."""

import json
import re
from pathlib import Path

import processes
import pytest
from flag_values import given
from simulated_results import cells_of, simulate, write_cell

from modtf.analysis.claims import CLAIMS
from modtf.experiments.modarch.studies.scorecard import FULL, RATES, SMOKE, TUNED_ON
from modtf.launch import report, scorecard

SMALL = {"settings": ["regression"], "rules": [2], "num_evaluations": 2, "checkpoints": ["tail"]}


@pytest.fixture(scope="module")
def study_folder(tmp_path_factory):
    return simulate(tmp_path_factory.mktemp("study"), **SMALL)


def test_the_command(call, study_folder, tmp_path):
    out = tmp_path / "ünï çødé" / "r"
    arguments = (f"--results={study_folder}", f"--out={out}", "--claims", "--measures", "--figures=ranking")
    status, printed, error = call(report.command, "report.py", *arguments)
    assert (status, error) == (0, "")
    for claim in CLAIMS.values():
        assert (claim.text in printed) == (not (claim.families or claim.router))
    assert "Among routers and R:\nmeasure " in printed
    assert "All requested cells are present" in printed
    assert f"Wrote {out / 'report.html'}" in printed
    assert (out / "figures" / "ranking.png").exists()
    assert (out / "report.html").exists()


def test_variants_can_be_chosen(tmp_path, capsys):
    """Their options do not matter."""
    variants = ["modular", ("modular", {"modules": 4}), "gt_modular"]
    folder = simulate(tmp_path / "study", variants=variants, **SMALL)
    place = (f"--results={folder}", f"--out={tmp_path / 'out'}")
    report.main(given(report, *place, "--variant=modular", "--figures=activation"))
    text = (tmp_path / "out" / "report.html").read_text()
    assert "12 trained models in 2 cells" in re.sub(r"<[^>]+>", "", text)
    assert "modular (modules=4)" in text
    assert "All requested cells are present" in capsys.readouterr().out
    for cell in cells_of(
        settings=["regression"], rules=[2], variants=[("modular", {"modules": 3}), "modular_op"]
    ):
        write_cell(folder, cell, finished=False)
    report.main(given(report, *place, "--variant=modular", "--figures=activation"))
    assert "Missing: 1 requested cell." in capsys.readouterr().out
    with pytest.raises(ValueError, match="--variant='switch' is not known; expected one of gt_modular, mod"):
        report.main(given(report, *place, "--variant=switch"))


def test_an_archive_alone_and_what_is_drawn_from_it(study_folder, tmp_path, capsys):
    archive = tmp_path / "study.zip"
    report.main(given(report, f"--results={study_folder}", f"--archive={archive}"))
    assert f"Wrote {archive}\n" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["study.zip"]
    said = []
    for source, out in ((study_folder, "one"), (archive, "two")):
        asked = f"--results={source}", f"--out={tmp_path / out}", "--figures=ranking", "--claims"
        report.main(given(report, *asked))
        said.append(capsys.readouterr().out.replace(f"{tmp_path / out}", "OUT"))
    assert said[0] == said[1]
    tables = [(tmp_path / out / "tables" / "summary.csv").read_bytes() for out in ("one", "two")]
    assert tables[0] == tables[1]


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
    def search_of(frozen, trials, _):
        columns = next(iter(trials.values())).columns
        loss = None if columns["arch"] == arch else 1.0
        losses = {f"{rate:g}": loss for rate in trials}
        return {name: columns[name] for name in ("arch", "variant", "model_options")} | {"losses": losses}

    monkeypatch.setattr("modtf.experiments.modarch.scorecard.card.search_of", search_of)
    trials = scorecard.own_trials(FULL, "modular", scorecard.settings_given(given(scorecard)))
    search, refused = scorecard.found(FULL, trials, tmp_path)
    assert [line["arch"] for line in search] == [name for name in ("mlp", "rnn") if name != arch]
    assert f"modular diverged in the {arch} at every learning rate" in refused[arch]
    with pytest.raises(ValueError, match="diverged"):
        scorecard.found(FULL, {arch: trials[arch]}, tmp_path)


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ([], "modtf-3_modular"),
        (["--set=router.modules=3"], "modtf-3_modular_modules-3"),
        (["--set=model.cell=simple"], "modtf-3_modular_cell-simple"),  # an option of the rnn alone
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
    assert card["version"] == "modtf-3-smoke"
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
