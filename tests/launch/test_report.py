import re

import pytest
from flag_values import given
from simulated_results import simulate

from modtf.analysis.claims import CLAIMS
from modtf.launch import report

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
