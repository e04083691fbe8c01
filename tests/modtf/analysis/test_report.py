"""The page, its figures and tables; the command is in tests/launch/test_report.py."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from simulated_results import World, results_of, study_of, write_cell

from modtf import Cell, Study, Task
from modtf.analysis.claims import CLAIMS
from modtf.analysis.figures.layout import PAGE
from modtf.analysis.labels import RANDOM
from modtf.analysis.report.sections import QUESTIONS, _variants_table, findings, how_found, ranked_cells
from modtf.pages import page

#: one for every question, and one that cannot be drawn
FIGURES = ["ranking", "performance_vs_num_rules", "collapse_and_specialisation_bars", "training_curves"]
FIGURES += ["collapse_and_specialisation_vs_num_rules", "performance_vs_width"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    first = study_of(out, rules=(2, 8), world=World(diverged=(("modular", 2, 1),)), checkpoints=["tail"])
    protocol = first.cells[0].definition.protocol
    write_cell(out, Cell(Task(num_rules=32), 32, "modular", ((0, 0),), protocol), finished=False)
    return study_of(out, kinds=[("rnn", {})], rules=[2], data_seeds=[0], checkpoints=["tail"])


@pytest.fixture(scope="module")
def report(study, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    assert study.report(out, figures=FIGURES, vector=["svg"]) == out / "report.html"
    return out


def words_of(text):
    """The text of a page without its markup."""
    return re.sub(r"<[^>]+>", "", text)


def one_claim(study):
    return study.claims(["gt_modular_wins"])


def test_the_page_needs_nothing_else_and_every_picture_has_its_files(report):
    text = (report / "report.html").read_text()
    fetched, ids = re.findall(r'(?:src|href)="([^"]+)"', text), re.findall(r' id="([^"]+)"', text)
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in fetched)
    assert not any(word in text for word in ("url(", "@import", "<script", "srcset", "poster="))
    assert all(text.count(f"<{tag}") == text.count(f"</{tag}>") for tag in ("table", "section", "details"))
    assert len(set(ids)) == len(ids)
    assert {link[1:] for link in fetched if link[0] == "#"} <= set(ids)
    names = re.findall(r"<figcaption>figures/(\w+)\.png", text)
    assert len(set(names)) == len(names) > 5
    for name in names:
        assert (report / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (report / "figures" / f"{name}.svg").read_text()
        assert f"figures/{name}.png, .svg;" in text
        assert len(pd.read_csv(report / "tables" / f"{name}.csv"))


def test_the_page_says_what_was_run_what_is_missing_and_what_was_judged(report):
    text = (report / "report.html").read_text()
    assert '<th scope="col">MLP regression</th><th scope="col">RNN regression</th>' in text
    text = words_of(text)
    for words in (
        "56 trained models in 12 cells",  # 8 x 6 + 4 x 2
        "MLP, RNN (checkpoint tail): the mean of ",
        "How a cell was trained and evaluated",
        "1 requested cell missing; see &#39;What is missing&#39;.",
        "2 models diverged and are not in any mean.",  # at R = 2 and 8
        "Requested cells that are missing: 1 unfinished.",
        "learning_rate 0.0001",
        "1 task; at least 3 tasks are needed",
        *(
            CLAIMS[claim].text.replace("<=", "&lt;=").replace("'", "&#39;")
            for claim in CLAIMS
            if not (CLAIMS[claim].families or CLAIMS[claim].router)
        ),
    ):
        assert words in text
    assert pd.read_csv(report / "tables" / "missing.csv")["num_rules"].tolist() == [32]
    claims = pd.read_csv(report / "tables" / "claims.csv")
    assert set(claims["kind"]) == {"MLP regression", "RNN regression"}
    assert claims.loc[claims["kind"] == "RNN regression", "verdict"].unique().tolist() == ["not enough runs"]


def test_findings_are_made_from_the_numbers(tmp_path):
    study = study_of(tmp_path, rules=(2, 8), checkpoints=["tail"])
    rows = study.performance[study.performance["distribution"] == "in distribution"]
    wide = rows.pivot_table("value", ["data_seed", "num_rules", "seed"], "variant", observed=True)
    tasks = np.log(wide["gt_modular"] / wide["monolithic"]).groupby("data_seed").mean()
    low, high = np.exp(stats.t.interval(0.95, 2, tasks.mean(), stats.sem(tasks)))
    sentences = findings(study)
    assert sentences[0] == (
        f"`gt_modular` reaches {np.exp(tasks.mean()):.2f} times the loss of `monolithic` in distribution "
        f"(95% CI {low:.2f} to {high:.2f}, 3 tasks)."
    )
    alignment = study.results.query("measure == 'alignment' and variant == 'modular'")["value"].mean()
    assert sentences[1].startswith(f"`modular` learned, and specialises in part: alignment {alignment:.2f} (")
    assert sentences[1].endswith(f", 3 tasks); random routing has {(1 / 2 + 7 / 8) / 2:.3g}.")
    assert "Means are over R = 2, 8 and width 32" in how_found(study)
    several = study_of(tmp_path, kinds=[("rnn", {})], rules=[2], data_seeds=[0], checkpoints=["tail"])
    assert re.search(r"between .* \(MLP regression, 95% CI .*, 3 tasks\) and", "".join(findings(several)))
    assert "RNN regression, no interval, 1 task)" in findings(several)[0]


def test_a_study_that_learned_nothing_says_so_first(study):
    part = study.part(*study.kinds[0])
    part.learned = part.learned.assign(learned=False, share=[0.02, 0.04, 0.03][: len(part.learned)])
    [text] = findings(part)
    assert text.startswith("Nothing was trained enough to judge: after ")
    assert re.search(r" has 9[67]% to 98% of the loss or error of the best constant answer\.$", text)
    part.learned.loc[part.learned.index[0], "learned"] = True
    assert findings(part)[0].startswith(
        f"{len(part.learned) - 1} of {len(part.learned)} pairs of task type and R"
    )
    assert len(findings(part)) > 1


def test_the_first_table_shows_the_size_at_which_most_variants_were_run(tmp_path):
    sizes = {"rules": [2], "data_seeds": [0], "seeds": [0]}
    study_of(tmp_path, variants=["modular"], widths=[64], **sizes)
    study = study_of(tmp_path, variants=["modular", "gt_modular"], widths=[32], **sizes)
    head, table, _ = _variants_table(study, study.kinds[0])
    assert head.text == "MLP regression, R = 2, width 32, best first:"
    *trained, last = table.frame["variant"]
    losses = study.performance[study.performance["distribution"] == "in distribution"].groupby("variant")[
        "value"
    ]
    means = losses.mean().loc[trained].tolist()
    assert (sorted(trained), last, means) == (["gt_modular", "modular"], "random", sorted(means))


def test_routers_without_a_reference_are_compared_by_their_loss(tmp_path):
    variants = [("modular", {"modules": number}) for number in (2, 4, 8)]
    study = study_of(tmp_path, rules=[8], variants=variants, data_seeds=[0, 1], checkpoints=["tail"])
    rows = study.performance[study.performance["distribution"] == "in distribution"]
    logs = np.log(rows["value"]).groupby(rows["variant"].astype(str)).mean()
    low, high = logs.idxmin(), logs.idxmax()
    assert findings(study)[0].startswith(f"`{low}` reaches 0.")
    assert f" times the loss of `{high}` in distribution (95% CI " in findings(study)[0]
    assert how_found(study).startswith(f"`{high}` and `{low}` have the highest and the lowest loss of 3 ")


def test_pictures_come_before_claims_and_captions_can_be_read_at_page_width(report, whole):
    text = (report / "report.html").read_text()
    headings = re.findall(r"<h2>([^<]+)", text)
    first = headings.index("Claims of the paper")
    assert headings[:first] == ["What was found", *QUESTIONS[:-1]]
    assert max(i for i, part in enumerate(text.split("<h2>")) if "<img" in part) <= first
    assert text.index('class="findings"') < text.index("<table") < text.index("<img")
    (wide,) = [p for p in whole.figure("against_modular") if p.figure.get_size_inches()[0] > PAGE][:1]
    size = wide.figure.subfigs[0].texts[0].get_fontsize()
    assert size * PAGE / wide.figure.get_size_inches()[0] == pytest.approx(9)


def test_the_same_study_gives_the_same_bytes(study, report, tmp_path):
    study.report(tmp_path, figures=["ranking", "training_curves"], vector=["svg"], judged=one_claim(study))
    for name in ("ranking.svg", "ranking.png", "training_curves_e32.svg"):
        assert (tmp_path / "figures" / name).read_bytes() == (report / "figures" / name).read_bytes()


def test_files_of_an_earlier_report_go_and_those_of_others_stay(tmp_path):
    study = study_of(tmp_path / "in", rules=[2], data_seeds=[0, 1], checkpoints=["tail"])
    judged = one_claim(study)
    study.report(tmp_path, figures=["ranking"], vector=["svg"], judged=judged)
    (tmp_path / "figures" / "ranking_mine.png").write_bytes(b"mine")
    (tmp_path / "elsewhere.csv").write_text("mine")
    record = tmp_path / ".written"
    record.write_text(record.read_text() + "tables/../elsewhere.csv\nelsewhere.csv\n")
    study.report(tmp_path, figures=["paired_comparisons"], judged=judged)
    figures = {path.name for path in (tmp_path / "figures").iterdir()}
    assert figures == {"paired_comparisons.png", "ranking_mine.png"}
    assert not (tmp_path / "tables" / "ranking.csv").exists()
    assert (tmp_path / "tables" / "claims.csv").exists()
    assert (tmp_path / "elsewhere.csv").read_text() == "mine"


def test_names_cannot_become_markup_and_a_figure_without_data_gives_its_reason(tmp_path):
    cell = replace(Cell(Task(), 32, "modular", ((0, 0),)), router={"note": "<script>x</script>"})
    write_cell(tmp_path / "in", cell, num_evaluations=1, version="<script>y</script>")
    study = Study.read(tmp_path / "in")
    study.report(tmp_path / "out", figures=["ranking_pies"], judged=one_claim(study))
    text = (tmp_path / "out" / "report.html").read_text()
    assert "<script" not in text
    assert "&lt;script&gt;x" in text
    assert "&lt;script&gt;y" in text
    assert text.count("Not drawn: Ranking pies (") == 1
    assert ") was run, so there is nothing to compare." in words_of(text)


@pytest.mark.parametrize("wrong", [{"figures": ["pie_in_the_sky"]}, {"vector": ["pie_in_the_sky"]}])
def test_an_unknown_figure_or_format_is_refused(study, tmp_path, wrong):
    (what,) = wrong
    with pytest.raises(ValueError, match=f"{what.removesuffix('s')}='pie_in_the_sky' is not known"):
        study.report(tmp_path, **wrong)
    assert not list(tmp_path.iterdir())


def test_long_tables_are_cut_and_say_so():
    def table(frame):
        return page.render("", [page.Section("", content=[page.Table(frame)])])

    text = table(pd.DataFrame({"a_b": range(100), "c": [0.123456] * 99 + [np.nan]}))
    assert (text.count("<tr"), f"{page.MAX_ROWS} of 100 rows are shown." in text) == (1 + page.MAX_ROWS, True)
    assert '<th scope="col">a b</th>' in text
    assert "<td>0.1235</td>" in text
    assert "<td></td>" in table(pd.DataFrame({"c": [0.5, np.nan]}))


def test_the_best_variant_is_first_and_what_diverged_last():
    frame = Study(results_of(rules=[4], data_seeds=range(3))).results
    best = ranked_cells(frame, 0.95)[1]
    assert best[-1][0] == RANDOM
    lost = (frame["variant"] == best[0][0]) & (frame["measure"] == "loss")
    rows = frame.assign(value=frame["value"].mask(lost, np.nan))
    names = [row[0] for row in ranked_cells(rows, 0.95)[1]]
    assert names[:-2] == [row[0] for row in best[1:-1]]
    assert set(names[-2:]) == {best[0][0], RANDOM}
