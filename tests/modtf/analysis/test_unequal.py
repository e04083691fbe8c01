"""Results that cannot be compared, or that not all variants have: rejected, or said."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from draw_cosine import best_rates, trial_losses
from protocols import COSINE_STEPS
from simulated_results import TRAINING, results_of, simulate
from write_search import search

from modtf.analysis import Study, against, compare_pairs, performance_rows, results_table, table_note, votes
from modtf.analysis.claims import learning_words, shares_learned
from modtf.analysis.figures.averages import average, performance
from modtf.analysis.pairs import log_ratios, match_members
from modtf.analysis.report.sections import claims_section, findings, protocols_section
from modtf.analysis.trained import how_trained
from modtf.results import find_cells

PAIR = ["monolithic", "modular"]
POINT = ["where", "measure", "variant"]


def results(tasks=range(4), **changes):
    sizes = {"rules": [4], "seeds": [0], "checkpoints": ["tail"], "variants": PAIR, "data_seeds": tasks}
    return results_of(**{**sizes, **changes})


def with_value(frame, variant, measure, value, tasks=range(4)):
    chosen = frame["variant"].eq(variant) & frame["measure"].eq(measure) & frame["data_seed"].isin(tasks)
    return frame.assign(value=frame["value"].mask(chosen, value))


COMPARISONS = {
    "pairs": lambda frame: compare_pairs(performance_rows(frame)),
    "against": lambda frame: against(frame, "monolithic"),
    "votes": lambda frame: votes(performance_rows(frame), PAIR),
    "table": results_table,
}


@pytest.mark.parametrize("compare", COMPARISONS.values(), ids=COMPARISONS)
def test_models_that_were_trained_in_other_ways_are_not_compared(compare):
    """Variants may differ in the rate, the part after "@"; tasks of one variant may not."""
    frame, is_modular = results(), lambda frame: frame["variant"].eq("modular")
    protocol = np.where(is_modular(frame), "p@0.001", "p@0.003")
    compare(frame.assign(protocol=protocol))
    with pytest.raises(ValueError, match=r"2 different ways, .*\(p@0\.001: .*; q@0\.003: "):
        compare(frame.assign(protocol=np.where(is_modular(frame), "p@0.001", "q@0.003")))
    late = is_modular(frame) & frame["data_seed"].gt(1)
    with pytest.raises(ValueError, match="3 different ways"):
        compare(frame.assign(protocol=np.where(late, "p@0.01", protocol)))


@pytest.mark.parametrize(
    ("tasks", "seeds", "words"),
    [
        (range(4, 8), [0], "over 4 tasks; variants were run on different tasks or seeds"),
        (range(3), [0, 1], "over 3 to 4 tasks, each the mean of its 1 to 2 seeds; variants were run on diff"),
    ],
)
def test_variants_of_different_tasks_or_seeds_are_said(tasks, seeds, words):
    parts = [results(variants=PAIR[:1]), results(tasks, seeds=seeds, variants=PAIR[1:])]
    study = Study(pd.concat(parts))
    assert words in table_note(study.results)
    assert "variants have different tasks" in average(study, performance(study.results), POINT)[1]
    assert f"up to {len(set(range(4)) | set(tasks))} tasks x" in repr(study)
    same = Study(results())
    assert "different" not in table_note(same.results)
    assert "Incomplete" not in average(same, performance(same.results), POINT)[1]
    assert "up to" not in repr(same)


def test_a_mean_over_sizes_of_different_tasks_warns():
    """R = 8 was run on the first two of four tasks."""
    frame = pd.concat([results(seeds=[0, 1]), results(range(2), rules=[8])])
    study, words = Study(frame), "a mean gives every task the same weight, not every size"
    by, loss = ["variant", "condition"], {"measure": "loss"}
    for averaged in (
        lambda: study.summary(by, ["num_rules"], **loss),
        lambda: compare_pairs(study.performance, by=["distribution"], over=["num_rules", "condition"]),
        lambda: study.claims(["modular_small_margin"]),
    ):
        with pytest.warns(UserWarning, match=words):
            averaged()
    assert len(study.summary([*by, "num_rules"], **loss)) == 8
    assert any(words in text for text in claims_section(study, Study(results()).claims(), {}).texts)
    same = Study(pd.concat([results(), results(rules=[8])]))
    assert set(same.summary(by, ["num_rules"], **loss)["num_tasks"]) == {4}
    same.claims(["modular_small_margin"])


def test_a_table_that_pandas_read_keeps_the_names_of_its_variants(tmp_path):
    """By default pandas reads an empty text, such as no options, as NaN."""
    frame = results(variants=["monolithic", "modular", ("modular", {"modules": 3})])
    frame.to_csv(tmp_path / "results.csv", index=False)
    study = Study(pd.read_csv(tmp_path / "results.csv"))
    assert study.variants == ["monolithic", "modular", "modular (modules=3)"]
    pd.testing.assert_series_equal(study.summary()["mean"], Study(frame).summary()["mean"])


def test_ratios_leave_out_losses_that_are_not_positive_and_say_so():
    values = pd.DataFrame({"value_first": [1.0, 0.0, -1.0, np.inf], "value_second": [2.0, 1.0, -2.0, 1.0]})
    np.testing.assert_allclose(log_ratios(values), [np.log(0.5), np.nan, np.nan, np.inf])
    some = Study(with_value(results(), "modular", "loss", 0.0, tasks=[0]))
    assert "3 tasks); left out: 1 pair with a loss or error of 0" in findings(some)[0]
    every = Study(with_value(results(), "modular", "loss", 0.0))
    assert "`modular` and `monolithic` have no ratio in distribution; left out: 4 pairs" in findings(every)[0]


def test_random_routing_is_compared_with_the_models_that_did_not_diverge():
    """All models with R = 8 diverged, and random routing of 2 modules has 0.5."""
    frame = results(rules=[2, 8], seeds=[0])
    study = Study(frame.assign(value=frame["value"].mask(frame["num_rules"].eq(8))))
    (text,) = [text for text in findings(study) if "alignment" in text]
    assert "; random routing has 0.5; left out: 4 models that diverged." in text


@pytest.mark.parametrize("lost", [np.nan, np.inf])
def test_the_size_of_an_effect_is_that_of_the_models_that_did_not_diverge(lost):
    study = Study(with_value(results(), "modular", "loss", lost, tasks=[0]))
    (row,) = compare_pairs(study.performance.query("condition == 'iid'")).itertuples()
    gains = match_members(study.performance.query("condition == 'iid' and data_seed > 0"), *PAIR[::-1])[
        "gain"
    ]
    assert row.effect_size == pytest.approx(gains.mean() / gains.std(ddof=1))
    assert (row.num_models, row.num_missing) == (3, 1)


def test_models_that_diverged_have_not_learned():
    frame = results(variants=["modular"])
    start = frame.query("measure == 'loss' and condition == 'iid'")
    history = pd.concat([start.assign(step=0, value=1.0), start.assign(step=10, value=0.1)])
    measured = frame.index.isin(start.index)
    ends = np.where(frame["data_seed"].lt(2), np.nan, 0.7)
    study = Study(frame.assign(value=frame["value"].mask(measured, ends)), history)
    assert shares_learned(study)["share"].tolist() == [pytest.approx(0.3)]
    none = Study(frame.assign(value=frame["value"].mask(measured, np.nan)), history)
    assert shares_learned(none)["share"].isna().all()
    [line] = learning_words(none)
    assert "R = 4: all models diverged. Its models are left out of verdicts" in line


def test_what_one_evaluation_shows_is_unknown():
    """The first loss is that of models with two evaluations, if any."""
    frame = results()
    end = frame.query("measure == 'loss' and condition == 'iid'")
    once = Study(frame, end.assign(step=20))
    assert shares_learned(once)["share"].isna().all()
    assert learning_words(once) == [
        "MLP regression, R = 4: how much the best variant has learned is unknown: fewer than two evaluations "
        "during training, or classes of unequal frequency."
    ]
    start = end[end["variant"] == "monolithic"].assign(step=0, value=10 * end["value"].max())
    twice = Study(frame, pd.concat([start, end.assign(step=20)]))
    assert shares_learned(twice)["share"].between(0.9, 1).all()


def test_a_history_keeps_only_the_protocols_of_the_study():
    frame = results()
    history = pd.concat([frame.assign(step=10, protocol=name) for name in "pq"])
    assert set(Study(frame, history, protocols=["p"]).history["protocol"]) == {"p"}


def test_rates_schedules_and_versions_are_said(tmp_path):
    sizes = {
        "settings": ["regression"],
        "rules": [2, 8],
        "data_seeds": [0],
        "seeds": [0],
        "num_evaluations": 1,
    }
    rates = {("monolithic", 2): 1e-3, ("monolithic", 8): 3e-3, ("modular", 2): 3e-3, ("modular", 8): 3e-3}
    for version, ((name, rules), rate) in enumerate(rates.items()):
        training = replace(TRAINING, learning_rate=rate, schedule="cosine")
        grid = {**sizes, "rules": [rules], "variants": [name], "training": training}
        simulate(tmp_path, version=f"0.{version}", **grid)
    study = Study.read(tmp_path)
    line = "MLP regression: 4,000 steps, cosine schedule, learning rates "
    line += "0.001 (monolithic at R = 2), 0.003 (modular, monolithic at R = 8)"
    assert how_trained(study) == [line]
    assert study.table().endswith(line)
    wide = replace(TRAINING, learning_rate=1e-3, schedule="cosine")
    simulate(
        tmp_path / "wide", **{**sizes, "rules": [8], "widths": [64], "variants": ["modular"]}, training=wide
    )
    line = "learning rates 0.001 (monolithic at R = 2, width 32, modular at R = 8, width 64), 0.003 (modular "
    assert (
        line + "at R = 2, 8, width 32, monolithic at R = 8, width 32)" in how_trained(Study.read(tmp_path))[0]
    )
    (table,) = protocols_section(study).content
    assert set(table.frame["how"].str.extract("(version .*?);")[0]) == {
        "version 0.0",
        "version 0.1, 0.2, 0.3",
    }


def test_a_rate_at_which_a_model_diverged_is_not_chosen(tmp_path):
    """Without the lost task, 0.01 would have the smaller mean."""
    losses = {"a": [0.1, 0.4], "b": [0.1, np.nan]}
    rows = [(name, COSINE_STEPS, "loss", value) for name, values in losses.items() for value in values]
    table = pd.DataFrame(rows, columns=["folder", "step", "measure", "value"])
    table.to_csv(tmp_path / "table.csv", index=False)
    trials = [("s", "r", rate, SimpleNamespace(folder=name)) for rate, name in ((0.001, "a"), (0.01, "b"))]
    found = trial_losses(tmp_path / "table.csv", trials)
    np.testing.assert_allclose(found["loss"], [0.2, np.nan])
    assert best_rates(found) == {"s": {"r": 0.001}}


def test_a_search_with_a_missing_trial_is_rejected(tmp_path):
    simulate(tmp_path, settings=["regression"], rules=[2], variants=PAIR, data_seeds=[0], num_evaluations=1)
    found = search(tmp_path)
    assert found["folder"].nunique() == 2
    assert found.duplicated(["folder", "step", "data_seed", "seed", "measure"]).sum() == 0
    (find_cells(tmp_path)[0].path / "manifest.json").unlink()
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(ValueError, match="1 of 2 trials"):
        search(tmp_path)


def test_the_steps_are_those_that_were_taken():
    """A trainer of stages takes more or fewer steps than the protocol says."""
    path = Path(__file__).parents[3] / "docs" / "study" / "corruptions.zip"
    lines = how_trained(Study.read(path))
    [longest] = [line for line in lines if line.startswith("Corruptions digits categorical: 4,242 steps")]
    assert longest.endswith("learning rate 0.01 (erm (trainer.longer=3.8917), modular (trainer.search=0.2))")
