"""Figures and claims that a user registers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from registering import forgotten

import modtf
from modtf.analysis import with_kinds
from modtf.analysis.claims import CLAIMS, NOT_ENOUGH, SUPPORTED, advantage, mean_evidence, print_claims
from modtf.analysis.figures import FIGURES, NothingToDraw, bars, means
from modtf.analysis.report.write import write_report
from modtf.tasks.families import FAMILIES
from modtf.tasks.family import Variant


@pytest.fixture
def registered():
    """Forgets what a test registers."""
    with forgotten(FIGURES, CLAIMS):
        yield


def seconds(study, choice):
    """The figure that the documentation shows."""
    rows = with_kinds(study.results.query("measure == 'seconds'"))
    if rows.empty:
        raise NothingToDraw("no model was timed")
    yield means(study, rows, bars, None, "seconds", "Seconds of training", row="kind", column="num_rules")


def test_a_figure_of_a_user_stands_beside_the_others(registered, foreign):
    modtf.register_figure("seconds")(seconds)
    assert list(FIGURES)[-1] == "seconds"
    (picture,) = foreign.figure("seconds")
    np.testing.assert_allclose(picture.table["mean"], 12.0)
    (legend,) = picture.figure.subfigs[0].legends
    assert legend.get_texts()[-1].get_text() == "sparse"


def test_a_figure_is_drawn_for_the_families_that_it_is_meant_for(registered, whole, foreign, tmp_path):
    modtf.register_figure("seconds", families=["mha"])(seconds)
    (picture,) = whole.figure("seconds")
    assert set(picture.table["kind"]) == {"MHA v2 regression"}
    with pytest.raises(NothingToDraw, match="it applies to mha only"):
        foreign.figure("seconds")
    page = foreign.report(tmp_path, figures=["seconds"], judged=foreign.claims(["gt_modular_wins"]))
    assert "Seconds" not in page.read_text()


def test_a_second_picture_of_one_name_is_refused(registered, foreign, tmp_path):
    """Its files would replace those of the first."""
    modtf.register_figure("seconds")(seconds)
    modtf.register_figure("again")(lambda study, choice: seconds(study, choice))
    with pytest.raises(ValueError, match=r"^The figure 'again' has a second picture with the name 'seconds'"):
        write_report(foreign, tmp_path, ["seconds", "again"], judged=pd.DataFrame())


def test_what_cannot_be_called_with_a_study_and_a_choice_is_refused():
    for wrong in (lambda study: None, lambda a, b, c: None):
        with pytest.raises(ValueError, match=r"figure 'wrong' must be a function draw\(study, choice\)"):
            modtf.register_figure("wrong")(wrong)  # type: ignore[arg-type]


def test_a_claim_on_a_variant_of_a_user_is_judged(registered, routers):
    """It uses the same helpers as the claims of the paper."""
    shared = {"figure": "paired_comparisons", "statistic": "relative reduction of the loss"}
    names = ["gt_modular", "modular (modules=3)"]

    @modtf.register_claim("beats_mine", text="gt_modular beats mine", **shared)
    def beats_mine(study):
        yield mean_evidence(advantage(study, *names), "advantage", "over mine", level=study.level)

    judged = routers.claims(["beats_mine"])
    assert judged["verdict"].tolist() == [SUPPORTED]
    assert judged["num_models"].item() == 2 * 2 * 4 * 2
    assert "gt_modular beats mine  [paired_comparisons]" in print_claims(judged)
    assert "beats_mine" in set(routers.claims()["claim"])
    only = replace(CLAIMS["beats_mine"], variants=("gt_modular", "monolithic"))
    CLAIMS._objects["beats_mine"] = only
    assert routers.claims(["beats_mine"])["verdict"].tolist() == [NOT_ENOUGH]  # it does not see mine


def test_claims_are_judged_where_they_are_meant(registered, whole, monkeypatch):
    shared = {"text": "it is so", "figure": "ranking", "statistic": "it"}
    modtf.register_claim("of_mha", families=["mha"], **shared)(lambda study: iter(()))
    assert set(whole.claims(["of_mha"])["kind"]) == {"MHA v2 regression"}
    others = (Variant("first"), Variant("second"))
    monkeypatch.setattr(type(FAMILIES["mha"]), "variants", others)
    rows = whole.results.drop(columns=["router", "kind"])
    names = {"modular": "first", "gt_modular": "second"}
    mha = rows["arch"] == "mha"
    rows = rows[~mha | rows["variant"].isin(list(names))]
    rows = rows.assign(variant=rows["variant"].astype(str).where(~mha, rows["variant"].map(names)))
    judged = modtf.Study(rows).claims()
    assert set(judged.loc[judged["claim"] != "of_mha", "kind"]) == {"MLP regression"}
    empty = modtf.Study(rows[rows["arch"] == "mha"]).claims(["gt_modular_wins"])
    assert empty.empty
    assert list(empty) == list(judged)
