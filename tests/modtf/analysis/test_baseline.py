"""Every variant against modular: by hand, and as a picture."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from simulated_results import World, simulate

from modtf.analysis import Study, against, holm
from modtf.analysis.figures import NothingToDraw
from modtf.metrics import MEASURES, measures

VARIANTS = ("monolithic", "modular", "gt_modular", ("modular", {"modules": 3}), "switch")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """One kind, two R and widths, four tasks x two seeds; `switch` diverges once."""
    return simulated(tmp_path_factory.mktemp("against"), rules=(2, 8), widths=(32, 64))


def simulated(out, **sizes):
    sizes = {"settings": ["regression"], "data_seeds": range(4), "rules": [8], "num_evaluations": 1} | sizes
    world = World(diverged=(("switch", 0, 0),))
    return Study.read(simulate(out, variants=VARIANTS, world=world, **sizes))


def test_a_difference_is_that_of_the_same_task_and_seed(study):
    """Differences by plain pandas, their interval and p by SciPy."""
    table = against(study.results).set_index(["variant", "num_rules", "measure", "condition"])
    key = ["data_seed", "seed", "width"]
    for measure in ("loss", "alignment"):
        rows = study.results.query("measure == @measure and num_rules == 8 and condition == 'iid'")
        sides = [rows[rows["variant"] == name].set_index(key)["value"] for name in ("gt_modular", "modular")]
        gains = sides[1] - sides[0]
        gains = gains / np.maximum(*sides) if measure == "loss" else gains
        sample = gains.groupby("data_seed").mean()
        test = stats.ttest_1samp(sample, 0.0)
        found = table.loc[("gt_modular", 8, measure, "iid")]
        assert found["gain"] == pytest.approx(sample.mean())
        assert found["p"] == pytest.approx(test.pvalue)
        assert (found["low"], found["high"]) == pytest.approx(test.confidence_interval())
        assert (found["num_tasks"], found["num_models"]) == (4, 16)


def test_p_is_corrected_for_the_variants_of_a_score(study):
    table = against(study.results)
    groups = table.groupby(["num_rules", "measure", "condition"], observed=True)
    assert len(groups) == 2 * (2 + 5)
    for (_, measure, _), rows in groups:
        others = {"gt_modular", "modular (modules=3)", "switch"}
        assert set(rows["variant"]) == others | ({"monolithic"} if measure == "loss" else set())
        assert rows["p_corrected"].tolist() == holm(rows["p"].tolist())


def test_kinds_are_corrected_apart_and_drawn_apart(tmp_path):
    both = simulated(tmp_path, kinds=[("mlp", {}), ("rnn", {})])
    table = against(both.results)
    assert set(table["kind"]) == {"MLP regression", "RNN regression"}
    for _, rows in table.groupby(["kind", "measure", "condition"], observed=True):
        assert len(rows) in (3, 4)  # variants
        assert rows["p_corrected"].tolist() == holm(rows["p"].tolist())
    names = [picture.name for picture in both.figure("against_modular")]
    assert names == ["against_modular_mlp_regression", "against_modular_rnn_regression"]


def test_two_tasks_have_an_interval_and_no_p(tmp_path):
    table = against(simulated(tmp_path, data_seeds=range(1, 3)).results)
    assert table[["gain", "low", "high"]].notna().all(axis=None)
    assert table[["p", "p_corrected"]].isna().all(axis=None)


def test_models_that_diverged_are_counted_and_one_task_has_no_p(study):
    table = against(study.results).set_index(["variant", "measure"])
    assert (table.loc[("switch", "loss"), "num_missing"] == 2).all()  # of two widths
    one = against(study.results[study.results["data_seed"] == 1])
    assert one["gain"].notna().all()
    assert one[["low", "high", "p", "p_corrected"]].isna().all(axis=None)


def test_equal_variants_are_not_different(study):
    rows = study.results[study.results["variant"] == "modular"]
    twin = pd.concat([rows, rows.assign(variant="gt_modular")])
    twin["variant"] = pd.Categorical(twin["variant"], study.results["variant"].cat.categories)
    table = against(twin)
    assert set(table["variant"]) == {"gt_modular"}
    assert (table["gain"] == 0).all()
    assert (table["p"] == 1).all()


def test_another_baseline_and_none(study):
    assert "modular" in set(against(study.results, "switch")["variant"])
    alone = against(study.results[study.results["variant"] == "modular"])
    assert alone.empty
    assert list(alone) == list(against(study.results))
    with pytest.raises(ValueError, match="baseline='mine' is not known; expected one of monolithic, modular"):
        against(study.results, "mine")


def test_the_picture_has_a_row_for_every_variant_and_a_panel_for_every_score(study):
    (picture,) = study.figure("against_modular")
    axes = picture.figure.subfigs[0].axes
    assert len(axes) == 2 * (2 + 5)
    names = [tick.get_text() for tick in axes[0].get_yticklabels()]
    assert names == ["monolithic", "modular (modules=3)", "gt_modular", "switch"]
    assert {label.partition(":")[0] for label in picture.table["score"]} == {
        MEASURES[name].axis_label for name in picture.table["measure"].unique()
    }
    lacking = "no modular_op; 8 values not finite and left out; variants stand on unequal numbers of models"
    assert picture.note.endswith(f"Incomplete: {lacking}.")


def test_marks_stand_where_the_table_says_and_are_filled_where_it_is_sure(study):
    (picture,) = study.figure("against_modular")
    scores = list(dict.fromkeys(picture.table["score"]))
    for place, axes in enumerate(picture.figure.subfigs[0].axes):
        num_rules, score = (2, 8)[place // len(scores)], scores[place % len(scores)]
        rows = picture.table[(picture.table["score"] == score) & (picture.table["num_rules"] == num_rules)]
        marks = [container.lines[0] for container in axes.containers]
        for row, mark in zip(rows.itertuples(), marks, strict=True):
            assert mark.get_xdata() == pytest.approx([row.gain])
            assert (mark.get_markerfacecolor() == "white") == (row.p_corrected > 0.05)
            assert abs(row.gain) <= axes.get_xlim()[1] == -axes.get_xlim()[0]
    assert (picture.table["p_corrected"] > 0.05).any()
    assert (picture.table["p_corrected"] <= 0.05).any()


def test_what_has_no_number_is_left_out_of_the_picture(study):
    with pytest.raises(NothingToDraw, match="there is no modular to compare with"):
        study.of_variants(["switch", "gt_modular"]).figure("against_modular")
    with pytest.raises(NothingToDraw, match="no variant was run with modular on the same task and seed"):
        study.of_variants(["modular"]).figure("against_modular")
    gone = study.results.drop(columns="router").assign(variant=study.results["router"])
    lost = (gone["variant"] == "modular") & (gone["model_options"] == "") & gone["measure"].isin(["loss"])
    gone.loc[lost, "value"] = np.nan
    (picture,) = Study(gone).figure("against_modular")
    assert set(picture.table["distribution"].astype(str)) == {"activation"}


def test_a_measure_of_which_more_is_better_is_turned(study):
    """Of `top_label_share`, as a measure of the table."""
    rows = study.results[study.results["measure"] == "alignment"]
    shares = rows.assign(measure="top_label_share", value=1 - rows["value"])
    named = {m.name: m for m in measures()} | {"top_label_share": MEASURES["top_label_share"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("modtf.analysis.rows.activation_measures", lambda: list(named.values()))
        turned = against(pd.concat([study.results, shares])).set_index(["measure", "variant", "num_rules"])
    for variant in ("gt_modular", "switch"):
        expected = turned.loc[("alignment", variant, 8), "gain"]
        assert turned.loc[("top_label_share", variant, 8), "gain"] == pytest.approx(expected)
