import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from absl import flags

from modtf.analysis.claims import CLAIMS
from modtf.launch.report import main, read_study, write_report
from modtf.results import CELL, Bootstrap

REPORT = Path(__file__).parents[2] / "launch" / "report.py"


def run(*arguments):
    return subprocess.run([sys.executable, REPORT, *arguments], capture_output=True, text=True, timeout=120)


class Links(HTMLParser):
    """Everything a page would fetch, and its anchors."""

    def __init__(self):
        super().__init__()
        self.fetched, self.ids, self.local = [], set(), []

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.add(value)
            elif name == "href" and value.startswith("#"):
                self.local.append(value[1:])
            elif name in ("href", "src", "srcset", "action", "data", "poster"):
                self.fetched.append(value)


@pytest.fixture(scope="module")
def study_folder(simulator, tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    simulator.simulate(out, settings=["regression"], rules=(2, 8), num_evaluations=2)
    simulator.simulate(
        out, kinds=[("rnn", "")], settings=["regression"], rules=[2], data_seeds=[0], num_evaluations=2
    )
    cell = dict(zip(CELL, ("mlp", "regression", "", 32, 32, "modular"), strict=True))
    simulator.write_cell(out, cell, [(0, 0)], simulator.World(), {"steps": 1}, finished=False)
    return out


@pytest.fixture(scope="module")
def report(study_folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    study, missing = read_study([str(study_folder)], bootstrap=Bootstrap(100), quiet=True)
    write_report(study, missing, out, quiet=True)
    return out


def test_the_page_needs_nothing_else(report):
    text = (report / "report.html").read_text()
    links = Links()
    links.feed(text)
    assert links.fetched
    assert all(link.startswith("data:image/png;base64,") for link in links.fetched)
    assert "url(" not in text
    assert "@import" not in text
    assert "<script" not in text
    assert set(links.local) <= links.ids


def test_every_picture_has_its_files(report):
    text = (report / "report.html").read_text()
    names = re.findall(r"<figcaption>figures/(\w+)\.png", text)
    assert len(names) > 10
    assert len(set(names)) == len(names)
    for name in names:
        assert (report / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (report / "figures" / f"{name}.svg").read_text()
        assert len(pd.read_csv(report / "tables" / f"{name}.csv"))


def test_the_page_says_what_was_run_and_what_is_missing(report):
    text = (report / "report.html").read_text()
    assert "56 trained models in 12 cells" in text  # 8 x 6 + 4 x 2
    assert "unfinished" in text
    for claim in CLAIMS:
        assert CLAIMS[claim].text in text
    missing = pd.read_csv(report / "tables" / "missing.csv")
    assert (missing["num_rules"] == 32).sum() == 4


def test_the_same_study_gives_the_same_bytes(study_folder, report, tmp_path):
    study, missing = read_study([str(study_folder)], bootstrap=Bootstrap(100), quiet=True)
    write_report(study, missing, tmp_path, figures=["ranking", "training_curves"], quiet=True)
    for name in ("ranking.svg", "ranking.png", "training_curves_e32.svg"):
        assert (tmp_path / "figures" / name).read_bytes() == (report / "figures" / name).read_bytes()


def test_names_cannot_become_markup(simulator, tmp_path):
    simulator.simulate(
        tmp_path / "in", settings=["regression"], rules=[2], training={"note": "<script>x</script>"}
    )
    study, missing = read_study([str(tmp_path / "in")], bootstrap=Bootstrap(10), quiet=True)
    write_report(study, missing, tmp_path / "out", figures=["ranking_pies"], quiet=True)
    assert "<script" not in (tmp_path / "out" / "report.html").read_text()


def test_the_best_checkpoint_can_be_reported(study_folder):
    study, _ = read_study([str(study_folder)], checkpoint="best", quiet=True)
    assert set(study.results["checkpoint"]) == {"best"}


def test_the_command(study_folder, tmp_path):
    result = run(
        f"--results={study_folder}",
        f"--out={tmp_path / 'r'}",
        "--claims",
        "--figures=ranking",
        "--resamples=50",
    )
    assert result.returncode == 0, result.stderr
    for claim in CLAIMS:
        assert CLAIMS[claim].text in result.stdout
    assert "report.html" in result.stdout
    assert "figures: 100%" in result.stderr
    assert (tmp_path / "r" / "figures" / "ranking.png").exists()


def test_what_cannot_be_reported_is_one_line(tmp_path):
    result = run(f"--results={tmp_path / 'absent'}", f"--out={tmp_path / 'out'}")
    assert result.returncode == 1
    assert "no folder" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_study_without_a_finished_cell_is_refused(simulator, tmp_path):
    cell = dict(zip(CELL, ("mlp", "regression", "", 2, 32, "modular"), strict=True))
    simulator.write_cell(tmp_path, cell, [(0, 0)], simulator.World(), {"steps": 1}, finished=False)
    with pytest.raises(ValueError, match="None of the 1 cells"):
        read_study([str(tmp_path)], quiet=True)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"figures": ["pie_in_the_sky"]}, "ranking_pies"),
        ({"results": [","]}, "Give --results"),
        ({"out": None}, "--out=DIR"),
        ({"out": __file__}, "cannot be written"),
        ({"resamples": 0}, "resamples"),
    ],
)
def test_bad_flags_are_refused_before_anything_is_read(changed, words, tmp_path, monkeypatch):
    given: dict[str, object] = {
        "results": [str(tmp_path / "absent")],
        "out": str(tmp_path / "out"),
        "figures": [],
    }
    given |= {"resamples": 10, "bootstrap_seed": 0}
    monkeypatch.setattr(flags, "FLAGS", SimpleNamespace(**(given | changed)))
    with pytest.raises(ValueError, match=words):
        main()
