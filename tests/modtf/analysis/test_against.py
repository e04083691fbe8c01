"""Every variant against modular: by hand, and as a picture."""

import numpy as np
import pandas as pd
import pytest
from registering import forgotten
from scipy import stats
from simulated_results import results_of

import modtf
from modtf.analysis import Study, against, holm
from modtf.analysis.figures import NothingToDraw
from modtf.metrics import MEASURES

OTHERS = ["monolithic", "modular (modules=3)", "gt_modular", "switch"]


def test_a_difference_is_that_of_the_same_task_and_seed(routers):
    """Plain pandas gives the differences; SciPy gives their interval and p."""
    table = against(routers.results).set_index(["variant", "num_rules", "measure", "condition"])
    key = ["data_seed", "seed", "width"]
    for measure in ("loss", "alignment"):
        rows = routers.results.query("measure == @measure and num_rules == 8 and condition == 'iid'")
        sides = [rows[rows["variant"] == name].set_index(key)["value"] for name in ("gt_modular", "modular")]
        gains = sides[1] - sides[0]
        gains = gains / np.maximum(*sides) if measure == "loss" else gains
        sample = gains.groupby("data_seed").mean()
        test = stats.ttest_1samp(sample, 0.0)
        row = table.loc[("gt_modular", 8, measure, "iid")]
        assert row["gain"] == pytest.approx(sample.mean())
        assert row["p"] == pytest.approx(test.pvalue)
        assert (row["low"], row["high"]) == pytest.approx(test.confidence_interval())
        assert (row["num_tasks"], row["num_models"]) == (4, 16)


def test_p_is_corrected_for_the_variants_of_a_score_and_kinds_apart(undrawn):
    variants = ["monolithic", "modular", "gt_modular", "switch"]
    kinds: list = [("mlp", {}), ("rnn", {})]
    both = Study(
        results_of(kinds=kinds, variants=variants, rules=(2, 8), data_seeds=range(4), checkpoints=["tail"])
    )
    table = against(both.results)
    groups = table.groupby(["kind", "num_rules", "measure", "condition"], observed=True)
    assert len(groups) == 2 * 2 * (2 + 5)
    for (_, _, measure, _), rows in groups:
        assert set(rows["variant"]) == {"gt_modular", "switch", *["monolithic"] * (measure == "loss")}
        assert rows["p_corrected"].tolist() == holm(rows["p"].tolist())
    names = [picture.name for picture in both.figure("against_modular")]
    assert names == ["against_modular_mlp_regression", "against_modular_rnn_regression"]


def test_few_tasks_have_no_p_and_models_that_diverged_are_counted(routers):
    table = against(routers.results).set_index(["variant", "measure"])
    assert (table.loc[("switch", "loss"), "num_missing"] == 2).all()  # of two widths
    two = against(routers.results[routers.results["data_seed"].isin([1, 2])])
    assert two[["gain", "low", "high"]].notna().all(axis=None)
    assert two[["p", "p_corrected"]].isna().all(axis=None)
    one = against(routers.results[routers.results["data_seed"] == 1])
    assert one["gain"].notna().all()
    assert one[["low", "high", "p", "p_corrected"]].isna().all(axis=None)


def test_equal_variants_are_not_different_and_another_baseline(routers):
    rows = routers.results[routers.results["variant"] == "modular"]
    twin = pd.concat([rows, rows.assign(variant="gt_modular")])
    twin["variant"] = pd.Categorical(twin["variant"], routers.results["variant"].cat.categories)
    table = against(twin)
    assert set(table["variant"]) == {"gt_modular"}
    assert ((table["gain"] == 0) & (table["p"] == 1)).all()
    assert "modular" in set(against(routers.results, "switch")["variant"])
    single = against(rows)
    assert (len(single), list(single)) == (0, list(table))


def test_the_picture_shows_the_table_and_fills_what_is_sure(routers):
    (picture,) = routers.figure("against_modular")
    drawn, scores = picture.figure.subfigs[0].axes, list(dict.fromkeys(picture.table["score"]))
    assert [tick.get_text() for tick in drawn[0].get_yticklabels()] == OTHERS
    measured = picture.table["measure"].unique()
    assert {label.partition(":")[0] for label in scores} == {MEASURES[name].axis_label for name in measured}
    assert len(drawn) == 2 * (2 + 5) == 2 * len(scores)
    for place, axes in enumerate(drawn):
        num_rules, score = (2, 8)[place // len(scores)], scores[place % len(scores)]
        shown = picture.table[(picture.table["score"] == score) & (picture.table["num_rules"] == num_rules)]
        marks = [container.lines[0] for container in axes.containers]
        for row, mark in zip(shown.itertuples(), marks, strict=True):
            assert mark.get_xdata() == pytest.approx([row.gain])
            assert (mark.get_markerfacecolor() == "white") == (row.p_corrected > 0.05)
            assert abs(row.gain) <= axes.get_xlim()[1] == -axes.get_xlim()[0]
    assert set(picture.table["p_corrected"] > 0.05) == {True, False}
    lacking = "left out: 8 values that are not finite; variants have different numbers of models"
    assert picture.note.endswith(f"Incomplete: {lacking}.")


def test_what_has_no_number_is_left_out_of_the_picture(routers):
    with pytest.raises(NothingToDraw, match="modular, the variant to compare with, was not run"):
        routers.part(variant=["switch", "gt_modular"]).figure("against_modular")
    with pytest.raises(NothingToDraw, match="no variant was run on the same task and seed as modular"):
        routers.part(variant=["modular"]).figure("against_modular")


def test_a_measure_of_which_more_is_better_is_turned(routers, monkeypatch):
    """`top_label_share` stands for a measure of the table."""
    rows = routers.results[routers.results["measure"] == "alignment"]
    shares = rows.assign(measure="top_label_share", value=1 - rows["value"])
    known = list(MEASURES.values())
    monkeypatch.setattr("modtf.analysis.rows.activation_measures", lambda: known)
    turned = against(pd.concat([routers.results, shares])).set_index(["measure", "variant", "num_rules"])
    for variant in ("gt_modular", "switch"):
        expected = turned.loc[("alignment", variant, 8), "gain"]
        assert turned.loc[("top_label_share", variant, 8), "gain"] == pytest.approx(expected)


def test_a_measure_without_a_better_end_is_shown_and_not_compared(undrawn, tmp_path):
    with forgotten(MEASURES):
        add = modtf.register_measure(
            "peak", group="diagnostic", range=(0.0, 1.0), perfect=None, smaller_is_better=None,
            description="d", axis_label="Peak",
        )  # fmt: skip
        add(lambda A: float(A.mean(axis=0).max()))
        study = Study(results_of(variants=["modular", "gt_modular"], rules=[4], checkpoints=["tail"]))
        assert "peak" in set(study.results["measure"])
        compared = set(study.results["measure"]) & set(MEASURES) - {"peak"}
        assert set(against(study.results)["measure"]) == compared
        assert "Peak (neither end is better)" in set(
            study.figure("collapse_and_specialisation_bars")[0].table["label"]
        )
        assert "peak" in study.table()
        study.report(tmp_path, figures=["against_modular"])
