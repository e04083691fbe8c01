"""Means of tables, the rows they cover, and their labels."""

import numpy as np
import pandas as pd
import pytest
from simulated_results import simulate

from modtf.analysis import IN, OUT, kind_label, performance_rows, random_baseline, summarise, variant_label
from modtf.analysis.labels import family_label, in_report_order, with_kinds
from modtf.analysis.rows import headline_label
from modtf.results import CELL, load_history, load_results
from modtf.tasks.condition import Condition
from modtf.tasks.families import FAMILIES, Option


@pytest.fixture(scope="module")
def frame(small_folder):
    return load_results(small_folder)


def test_means_are_those_of_pandas(frame):
    summary = summarise(frame)
    by = [*CELL, "checkpoint", "measure", "condition"]
    expected = frame.dropna().groupby(by, observed=True)["value"].mean()
    means = summary.set_index(by)["mean"].dropna()
    np.testing.assert_allclose(means[expected.index], expected)
    assert (summary["num_models"] + summary["num_missing"] == 6).all()
    known = summary[summary["num_models"] > 0]
    assert (known["num_tasks"] == 3).all()
    assert ((known["low"] <= known["mean"]) & (known["mean"] <= known["high"])).all()


def test_what_a_mean_is_over_is_named(frame, small_folder):
    rows = frame[(frame["measure"] == "alignment") & (frame["checkpoint"] == "last")]
    table = summarise(rows, by=["variant", "setting"], over=["num_rules"])
    assert len(table) == 6
    assert (table["num_tasks"] == 3).all()  # tasks of different numbers of rules are the same tasks
    history = load_history(small_folder)
    with pytest.raises(ValueError, match="'step'"):
        summarise(history, by=[*CELL, "measure"])
    assert set(summarise(history, by=[*CELL, "measure", "step"])["num_models"]) == {6}


def test_performance_is_loss_or_error_in_two_conditions(frame):
    rows = performance_rows(frame[frame["checkpoint"] == "last"])
    shown = rows.groupby("setting", observed=True)["measure"].unique().map(list).to_dict()
    assert shown == {"classification": ["error"], "regression": ["loss"]}
    shown = rows.groupby("distribution", observed=True)["condition"].unique().map(list).to_dict()
    assert shown == {IN: ["iid"], OUT: ["scale2"]}


def test_the_headline_is_the_family_s_condition_or_group(tmp_path, monkeypatch):
    grid = {"settings": ["regression"], "rules": [2], "data_seeds": [0], "seeds": [0]}
    simulate(tmp_path, kinds=[("rnn", {}), ("mlp", {})], **grid)
    results = load_results(tmp_path)
    rows = performance_rows(results).query("distribution == @OUT")
    headlines = rows.groupby("arch", observed=True)["condition"].unique().map(list).to_dict()
    assert headlines == {"rnn": ["len30_scale2"], "mlp": ["scale2"]}
    every = performance_rows(results, headline=False)
    assert {"len3", "len20_scale2", "iid"} < set(every["condition"])
    assert headline_label("mlp") == "inputs x 2"
    family = type(FAMILIES["mlp"])
    grouped = (Condition("iid", "", True), *(Condition(name, "", group="far") for name in ("scale2", "x")))
    for name, value in {"conditions": grouped, "groups": ("far",), "headline": "far"}.items():
        monkeypatch.setattr(family, name, value)
    mean = results[results["condition"] == "scale2"].assign(condition="far")
    rows = performance_rows(pd.concat([results, mean]).query("arch == 'mlp'"))
    assert set(rows.loc[rows["distribution"] == OUT, "condition"]) == {"far"}
    assert headline_label("mlp") == "mean over far"
    monkeypatch.setattr(family, "headline", "iid")  # of a family with a single condition
    rows = performance_rows(results.query("arch == 'mlp'"))
    assert set(rows["distribution"]) == {IN}


def test_random_activation_never_collapses_and_tells_nothing():
    baseline = random_baseline([2, 8, 8]).set_index(["num_rules", "measure"])["value"]
    assert baseline[8, "collapse_avg"] == baseline[8, "collapse_worst"] == 0.0
    assert baseline[8, "alignment"] == pytest.approx(1 - 1 / 8)
    assert baseline[2, "inverse_mutual_information"] == pytest.approx(1.0)
    assert len(baseline) == 10
    other = random_baseline([4, 4], [12, 4]).query("measure == 'alignment'").set_index("variant")["value"]
    assert other.to_dict() == pytest.approx({"random": 0.75, "random (12 modules)": 11 / 12})


def test_what_a_reader_calls_variants_and_kinds(monkeypatch):
    assert variant_label("modular") == "modular"
    assert variant_label("modular", "modules=16,temperature=2") == "modular (modules=16, temperature=2)"
    kinds = {
        ("mlp", "regression", ""): "MLP regression",
        ("mlp", "classification", ""): "MLP classification",
        ("mha", "regression", "search=v1"): "MHA v1 regression",
        ("mha", "regression", "search=v2"): "MHA v2 regression",
        ("rnn", "regression", "target=state"): "RNN state regression",
    }
    assert [kind_label(*key) for key in kinds] == list(kinds.values())
    assert in_report_order(reversed(list(kinds))) == list(kinds)  # as registered
    frame = pd.DataFrame(reversed(list(kinds)), columns=["arch", "setting", "task_options"])
    assert with_kinds(frame)["kind"].cat.categories.tolist() == list(kinds.values())
    assert family_label("mlp", "dust=0.1") == "MLP dust=0.1"  # of a version that had the option
    monkeypatch.setattr(type(FAMILIES["mlp"]), "options", (Option("dust", 0.0, "of a plug-in"),))
    assert family_label("mlp", "dust=0.1") == "MLP dust0.1"  # numbers are named
