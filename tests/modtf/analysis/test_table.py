"""Means of tables, their labels, and the table of `launch/run.py`."""

import numpy as np
import pandas as pd
import pytest
from registering import forgotten
from simulated_results import World, results_of, simulate

from modtf.analysis import (
    IN,
    OUT,
    Study,
    kind_label,
    performance_rows,
    random_baseline,
    results_table,
    summarise,
    table_note,
    variant_label,
)
from modtf.analysis.labels import family_label, in_report_order, with_kinds
from modtf.analysis.rows import headline_label
from modtf.pages.text import text_table
from modtf.results import CELL, VARIANTS, load_history, load_results
from modtf.tasks.condition import Condition
from modtf.tasks.families import FAMILIES, Option, register_family


def one_cell(tasks=2, **changes):
    """Return the results of one cell per variant at the checkpoint of its family."""
    return Study(results_of(**{"rules": [4], "data_seeds": range(tasks), **changes})).results


def cells(line):
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


@pytest.mark.parametrize("arch", ["mlp", "rnn"])
def test_rows_and_columns(arch):
    frame = one_cell(kinds=[(arch, {})])
    lines = results_table(frame).splitlines()
    assert [line.split()[0] for line in lines[2:]] == [*VARIANTS, "random"]
    measures = ["collapse avg", "collapse worst", "alignment", "inverse MI", "adaptation"]
    assert cells(lines[0]) == ["variant", "loss in", "loss out", *measures, "parameters", "seconds"]
    assert set(lines[1]) == {"-"}
    assert len(lines[1]) == max(map(len, lines))
    monolithic, random = cells(lines[2]), cells(lines[-1])
    loss = frame.query("variant == 'monolithic' and measure == 'loss' and condition == 'iid'")
    by_task = loss.groupby("data_seed")["value"].mean()
    half = 12.706 * by_task.std() / np.sqrt(2)
    assert monolithic[1] == f"{by_task.mean():.3f} ±{half:.3f}"
    assert monolithic[3:] == ["-"] * 5 + ["35,000", "12"]
    assert random[1:3] == ["0.000", "0.000"]  # uniform use collapses nothing
    assert len(random) == 6


def test_sizes_that_differ_and_levels_are_said_as_they_are():
    frame = one_cell(variants=["monolithic", "modular"])
    larger = (frame["variant"] == "modular") & (frame["data_seed"] == 1)
    frame["num_parameters"] = frame["num_parameters"].mask(larger, 1_000_000)
    table = results_table(frame).splitlines()
    assert "35,000 to 1,000,000" in table[3]
    assert "to" not in table[2]
    assert "mean ±99.9% interval" in table_note(frame, 0.999)


def test_classification_shows_the_error_in_percent():
    lines = results_table(one_cell(settings=["classification"])).splitlines()
    assert cells(lines[0])[1:3] == ["error % in", "error % out"]
    assert len(cells(lines[2])[1].partition(" ")[0].partition(".")[2]) == 1


def test_the_note_says_what_the_interval_is_over():
    frame = one_cell(kinds=[("rnn", {})], tasks=3)
    note = table_note(frame)
    assert note.startswith("mean ±95% interval (Student's t) over 3 tasks, each the mean of its 2 seeds; ")
    for words in (
        "smaller is better everywhere.",
        "out: inputs x 2, 30 tokens.",
        "checkpoint tail: the mean over",
    ):
        assert words in note
    one = frame[frame["data_seed"] == 0]
    assert "±" not in results_table(one)
    words = "mean over 2 models of one task; other tasks may differ, so no interval"
    assert table_note(one).startswith(words)
    assert "perfect routing has collapse" in table_note(frame.assign(task_options="zipf=1.0"))


def test_options_are_part_of_a_name_and_models_that_diverged_are_shown():
    world = World(diverged=(("modular", 0, 1), ("gt_modular", 0, 0), ("gt_modular", 0, 1)))
    variants = ["gt_modular", "modular", ("modular_op", {"modules": 8})]
    frame = one_cell(world=world, variants=variants)
    modular, with_options, gt_modular = (cells(line) for line in results_table(frame).splitlines()[2:5])
    assert modular[1].endswith("(1 lost)")
    assert with_options[0] == "modular_op (modules=8)"
    assert "±" not in gt_modular[1]  # one task is left
    assert gt_modular[1].endswith("(2 lost)")
    none_left = one_cell(tasks=1, variants=["gt_modular"], world=world)
    assert cells(results_table(none_left).splitlines()[2])[1] == "- (2 lost)"
    rows = [cells(line) for line in results_table(frame).splitlines() if line.startswith("random")]
    alignment = {row[0]: row[3] for row in rows if len(row) > 3}  # a wide table folds
    assert alignment == {"random (4 modules)": "0.750", "random (8 modules)": "0.875"}


def test_a_table_is_of_one_cell(small_study):
    text = small_study.table()
    assert text.count("random") == 6
    assert "MLP regression, R = 8, width 32" in text


def test_small_losses_have_more_digits_and_a_column_without_rows_is_a_dash():
    floor = {name: (lambda x: 0.0) for name in VARIANTS}
    world = World(floor=floor, speed=dict.fromkeys(VARIANTS, 6) | {"gt_modular": 8})  # losses of exp(-speed)
    frame = one_cell(world=world)
    lines = results_table(frame).splitlines()
    shown = [cells(line)[1].partition(" ")[0] for line in lines[2:6]]
    assert {len(text.partition(".")[2]) for text in shown} == {5}
    assert shown[-1].startswith("0.0003")
    measure = cells(lines[3])[3]  # of a measure: three digits, as before
    assert [len(part.partition(".")[2]) for part in measure.split(" ±")] == [3, 3]
    inside = frame[frame["condition"] != "scale2"]
    assert [cells(line)[2] for line in results_table(inside).splitlines()[2:6]] == ["-"] * 4


def test_a_table_of_plain_networks_has_no_random_routing():
    frame = one_cell()
    plain = results_table(frame[frame["variant"] == "monolithic"])
    assert [line.split()[0] for line in plain.splitlines()[2:]] == ["monolithic"]


def test_modules_picked_at_random_have_a_row_for_every_number_of_them():
    """In a routed layer with M modules, random routing has alignment 1 - 1/M for any R."""
    frame = one_cell(kinds=[("mlp", {})])
    kept = frame[(frame["measure"] == "alignment") & frame["variant"].isin(["modular", "gt_modular"])]
    errors = frame[(frame["measure"] == "loss") & frame["variant"].isin(["modular", "gt_modular"])]
    modules = kept["variant"].astype(str).map({"modular": 4, "gt_modular": 21}).astype(int)
    placed = [kept.assign(place=name, num_modules=modules) for name in ("encoder", "encoder_groups")]
    both = pd.concat([errors, *placed]).assign(arch="vqa_mnist", num_rules=21, setting="categorical")
    both = both.assign(
        task_options="question=attribute", measure=both["measure"].astype(str).replace("loss", "error")
    )
    both["variant"] = pd.Categorical(both["variant"].astype(str), ["modular", "gt_modular"])
    lines = [cells(line) for line in results_table(both).splitlines()[-2:]]
    assert lines == [["random (4 modules)", "0.750", "0.750"], ["random (21 modules)", "0.952", "0.952"]]


@pytest.mark.parametrize("columns", [2, 9, 40])
def test_wide_tables_fold(columns):
    """All cells stand once, in order, below their names; the first column is repeated."""
    header = ["variant", *(f"collapse avg\nplace {number}" for number in range(columns))]
    rows = [[name, *(f"{name}{number}.000 ±0.000" for number in range(columns))] for name in "ab"]
    blocks = text_table(header, rows).split("\n\n")
    assert max(len(line) for block in blocks for line in block.splitlines()) <= 140
    assert (len(blocks) > 1) == (columns > 2)
    lines = [[cells(line) for line in block.splitlines()] for block in blocks]
    for row, (name, *values) in enumerate(rows, start=3):
        assert {block[row][0] for block in lines} == {name}
        assert [value for block in lines for value in block[row][1:]] == values
    assert [place for block in lines for place in block[1]] == [f"place {n}" for n in range(columns)]


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


def test_families_with_one_title_are_told_apart():
    with forgotten(FAMILIES):
        register_family("my_mlp")(type("Mine", (type(FAMILIES["mlp"]),), {}))
        assert [family_label(arch) for arch in ("mlp", "my_mlp")] == ["MLP", "MLP (my_mlp)"]
