"""Every variant against modular: by hand, and as a picture."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from simulated_results import World, simulate

from modtf.analysis import Study, against, holm
from modtf.analysis.figures import NothingToDraw
from modtf.metrics import MEASURES

VARIANTS = ("monolithic", "modular", "gt_modular", ("modular", {"modules": 3}), "switch")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """One kind, two R and widths, four tasks x two seeds; `switch` diverges once."""
    world = World(diverged=(("switch", 0, 0),))
    sizes = {"settings": ["regression"], "rules": (2, 8), "widths": (32, 64), "num_evaluations": 1}
    out = tmp_path_factory.mktemp("against")
    return Study.read(simulate(out, variants=VARIANTS, data_seeds=range(4), world=world, **sizes))


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
    alone = against(study.results[study.results["variant"] == "switch"])
    assert alone.empty
    assert list(alone) == list(against(study.results))


def test_the_picture_has_a_row_for_every_variant_and_a_panel_for_every_score(study):
    (picture,) = study.figure("against_modular")
    axes = picture.figure.subfigs[0].axes
    assert len(axes) == 2 * (2 + 5)
    names = [tick.get_text() for tick in axes[0].get_yticklabels()]
    assert names == ["monolithic", "modular (modules=3)", "gt_modular", "switch"]
    assert {label.partition(":")[0] for label in picture.table["score"]} == {
        MEASURES[name].axis_label for name in picture.table["measure"].unique()
    }
    with pytest.raises(NothingToDraw, match="no variant was run with modular on the same task"):
        study.of_variants(["switch", "gt_modular"]).figure("against_modular")
