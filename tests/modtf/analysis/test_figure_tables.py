"""Tables and notes of figures: what is averaged, what is left out, and what cannot be drawn."""

import pandas as pd
import pytest
from simulated_results import results_of, study_of

from modtf.analysis import Study, summarise
from modtf.analysis.figures import NothingToDraw, average, performance
from modtf.analysis.figures.averages import sizes
from modtf.metrics import activation_measures
from modtf.tasks.protocol import Training

FEW = {"data_seeds": [0], "seeds": [0]}


def test_no_width_is_left_out_and_variants_of_one_kind_alone_cost_no_figure(tmp_path, undrawn):
    """One task type has an option at one width; another has a router."""
    shared = {"rules": [4], **FEW}
    study_of(tmp_path, widths=[32], variants=["modular", "gt_modular", ("modular", {"modules": 3})], **shared)
    rnn: dict = {"kinds": [("rnn", {})], "widths": [16, 64]}
    study = study_of(tmp_path, variants=["modular", "gt_modular", "switch"], **rnn, **shared)
    for name in ("activation", "activation_evolution"):
        assert [picture.name[-4:] for picture in study.figure(name)] == ["_e16", "_e32", "_e64"]
    for name in ("collapse_and_specialisation_bars", "training_curves"):
        overview, *others = study.figure(name)
        assert (
            {"modular", "gt_modular"} <= set(overview.table["variant"]) <= {"modular", "gt_modular", "random"}
        )
        assert overview.note.endswith(
            "left out, because they were not run with all sizes: modular (modules=3), switch."
        )
        (apart,) = [picture for picture in others if picture.name.endswith("_e64")]
        assert "switch" in set(apart.table["variant"])
    study_of(tmp_path, kinds=[("mha", {"search": "v2"})], variants=["sparse"], **shared)
    names = [picture.name for picture in Study.read(tmp_path).figure("collapse_and_specialisation_bars")]
    assert [name[-4:] for name in names] == ["_e16", "_e32", "_e64"]  # no variant is everywhere


def test_a_point_is_the_mean_of_the_same_sizes_for_every_variant(whole):
    rows = performance(whole.results)
    smaller = rows[(rows["variant"] != "modular") | (rows["width"] == 32)]
    table, note = average(whole, smaller, ["kind", "where", "measure", "num_rules", "variant"])
    expected = summarise(rows[rows["width"] == 32], ["kind", "where", "measure", "num_rules", "variant"])
    pd.testing.assert_frame_equal(table, expected)
    assert "width 32;" in note
    assert "sizes that some variants lack are left out" in note


def test_measures_are_drawn_by_place(foreign):
    """A model with two routed layers: panels of each, and no random activation of unknown sizes."""
    rows = foreign.results.drop(columns=["router", "kind"])
    placed = rows["condition"].eq("iid") & rows["measure"].isin(["alignment", "collapse_avg"])
    both = [rows[placed].assign(place=place) for place in ("encoder", "root")]
    study = Study(pd.concat([rows[rows["measure"] == "error"], *both]))
    assert study.places == ["encoder", "root"]
    (picture,) = study.figure("collapse_and_specialisation_bars")
    labels = set(picture.table["label"])
    assert labels == {f"{m}: {p}" for m in ("Alignment", "Collapse (average)") for p in study.places}
    assert "random" not in set(picture.table["variant"])
    (picture,) = study.figure("against_modular")
    assert labels < set(picture.table["score"])
    blocks = [block.splitlines() for block in study.table().split("\n\n") if "\n---" in block]  # it folds
    heads = [" ".join(line for line in block[: next(i for i, x in enumerate(block) if x[:3] == "---")])
             for block in blocks]  # fmt: skip
    words = " ".join(heads).split()
    assert [words.count(word) for word in ("avg", "alignment", "encoder", "root")] == [2, 2, 2, 2]


def test_families_of_one_routed_layer_are_drawn_beside_those_of_several(foreign, whole):
    rows = foreign.results.drop(columns=["router", "kind"])
    measures = [measure.name for measure in activation_measures()]
    placed = rows[rows["measure"].isin(measures) & rows["condition"].eq("iid")]
    layers = [placed.assign(place=place) for place in ("encoder", "root")]
    single = whole.results.drop(columns=["router", "kind"], errors="ignore")
    study = Study(pd.concat([rows[rows["measure"] == "error"], *layers, single]))
    assert set(study.places) == {"", "encoder", "root"}
    pictures = study.figure("collapse_and_specialisation_bars")
    names = [picture.name.removeprefix("collapse_and_specialisation_bars") for picture in pictures]
    assert {"_e64", "_encoder", "_root"} <= set(names)  # width 64: of one layer alone
    assert len(set(names)) == len(names)


def test_kinds_trained_in_different_ways_are_averaged_in_the_overview(whole, undrawn):
    """In the published protocol an mlp trains for 100,000 steps, the others for 500,000."""
    results = whole.results.drop(columns="router")
    apart = Study(results.assign(protocol=results["arch"].astype(str)))
    name = "collapse_and_specialisation_vs_num_rules"
    pd.testing.assert_frame_equal(apart.figure(name)[0].table, whole.figure(name)[0].table)


def test_models_that_all_diverged_leave_an_empty_panel(foreign):
    results = foreign.results.drop(columns="router")
    lost = Study(results.assign(value=results["value"].where(results["measure"] != "error")))
    (picture,) = lost.figure("performance_vs_num_rules")
    assert picture.table["mean"].isna().all()
    assert "values that are not finite" in picture.note


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ranking", "only one task was run"),
        ("ranking_pies", "only one task was run"),
        ("performance_vs_width", "only one width, 32"),
        ("collapse_and_specialisation_vs_num_rules", "only one number of rules, 8"),
    ],
)
def test_nothing_of_one_value_is_drawn(name, reason, undrawn):
    """The results are those of `modtf run`: all variants on one task."""
    study = Study(results_of(rules=[8], data_seeds=[0]))
    with pytest.raises(NothingToDraw, match=reason):
        study.figure(name)
    assert {picture.name for picture in study.figure("performance_vs_num_rules")} == {"performance_bars"}


def test_curves_need_a_step_that_cells_share(tmp_path, undrawn):
    shared, shorter = {"rules": [8], **FEW}, Training(steps=3000, learning_rate=1e-4)
    study_of(tmp_path, **shared)
    study = study_of(tmp_path, kinds=[("rnn", {})], training=shorter, **shared)
    names = [picture.name for picture in study.figure("training_curves")]
    assert names == ["training_curves_by_family", "training_curves_e32"]  # averaged over both: step 0 alone
    study.history = study.history[study.history["step"] == 0]
    with pytest.raises(NothingToDraw, match="no cells share a step after the first"):
        study.figure("training_curves")


@pytest.mark.slow
def test_a_mean_over_kinds_does_not_change_them_along_its_line(tmp_path, undrawn):
    """Lines average only task types with every R: mlp has R = 2, 8, 32, mha only 2, 8."""
    few, name = {"data_seeds": range(2)}, "collapse_and_specialisation_vs_num_rules"
    study_of(tmp_path, rules=(2, 8, 32), **few)
    both = study_of(tmp_path, kinds=[("mha", {"search": "v1"})], rules=(2, 8), **few)
    first, *others = both.figure(name)
    learned = first.table[first.table["variant"] != "random"]
    assert set(learned["num_models"]) == {4}  # two tasks x two seeds, of one kind
    assert [set(picture.table["kind"]) for picture in others] == [{"MLP regression", "MHA v1 regression"}]
    three = study_of(tmp_path, kinds=[("rnn", {})], rules=(4,), **few)
    assert [picture.name for picture in three.figure(name)] == [f"{name}_e32"]


def test_a_router_whose_name_begins_like_random_routing_is_a_model():
    """It has no other sizes than `modular`, so it is left out."""
    sizes = {"widths": [32, 64], "rules": [4], "data_seeds": [0, 1]}
    frames = [results_of(variants=["modular"], **sizes)]
    frames += [results_of(variants=["random_top_2"], **{**sizes, "data_seeds": [2]})]
    study = Study(pd.concat(frames))
    _, note = average(study, performance(study.results), ["kind", "where", "measure", "variant"])
    assert "variants have different tasks or seeds" in note


def test_labels_of_random_routing_do_not_decide_which_sizes_are_averaged(undrawn):
    """`modular (modules=8)` has M = R at R = 8 only, so "random (8 modules)" has no value there."""
    variants = ["modular", ("modular", {"modules": 8})]
    study = Study(results_of(variants=variants, rules=[2, 8], data_seeds=[0, 1], checkpoints=["tail"]))
    (picture,) = study.figure("collapse_and_specialisation_bars")[:1]
    means = picture.table.query("measure == 'alignment'").set_index("variant")["mean"]
    rows = study.results.query("measure == 'alignment'")
    expected = rows.groupby("variant", observed=True)["value"].mean().to_dict()
    assert means.to_dict() == pytest.approx(expected | {"random": (1 / 2 + 7 / 8) / 2})
    assert "means over R = 2, 8" in picture.note
    assert "Incomplete" not in picture.note


def test_random_routing_has_no_tasks_and_every_size_has_the_same_weight(undrawn):
    """The first data seed of R = 4 is another one than that of R = 2 and 8."""
    sizes = {"variants": ["modular"], "checkpoints": ["tail"]}
    frames = [results_of(rules=[2, 8], data_seeds=[0, 1], **sizes)]
    frames += [results_of(rules=[4], data_seeds=[1, 2], **sizes)]
    (picture,) = Study(pd.concat(frames)).figure("collapse_and_specialisation_bars")[:1]
    (row,) = picture.table.query("measure == 'alignment' and variant == 'random'").itertuples()
    assert row.mean == pytest.approx((1 / 2 + 3 / 4 + 7 / 8) / 3)
    assert pd.isna([row.low, row.high]).all()


def test_a_mean_over_sizes_of_different_tasks_says_what_it_weighs(undrawn):
    sizes = {"variants": ["modular"], "checkpoints": ["tail"]}
    frame = results_of(rules=[2, 8], data_seeds=range(3), **sizes)
    words = "not every size (random: every size)."
    for rows, is_uneven in ((frame, False), (frame.query("num_rules == 2 or data_seed == 0"), True)):
        overview = Study(rows).figure("collapse_and_specialisation_bars")[0]
        assert overview.note.endswith(words) == is_uneven
        for picture in Study(rows).figure("collapse_and_specialisation_vs_num_rules"):
            assert words not in picture.note  # no point of a line mixes R


def test_notes_on_pairs_and_votes_are_about_the_models_in_them(undrawn):
    """Width 64 was run with `modular` alone, which has nothing to be compared with."""
    sizes = {"rules": [4], "data_seeds": [0, 1], "checkpoints": ["tail"]}
    frames = [results_of(**sizes), results_of(**sizes, widths=[64], variants=["modular"])]
    study = Study(pd.concat(frames))
    for name in ("paired_comparisons", "against_modular"):
        assert "; width 32; " in study.figure(name)[0].note
    assert "; 16 models; " in study.figure("ranking")[0].note  # four variants, two tasks x two seeds


def test_a_note_names_what_is_mixed_in_a_mean_and_not_what_stands_alone():
    rows = [("left", "a", 16), ("left", "b", 16), ("right", "c", 32)]
    kept = pd.DataFrame(rows, columns=["panel", "kind", "width"]).assign(num_rules=8)
    assert sizes(kept, ["panel"]) == ["width 16, 32", "R = 8", "means over a, b"]


def test_notes_name_task_types_and_pairs_that_are_left_out(undrawn):
    sizes = {"data_seeds": [0, 1], "seeds": [0], "checkpoints": ["tail"]}
    frame = pd.concat(
        [results_of(rules=[2, 8], **sizes), results_of(kinds=[("rnn", {})], rules=[8], **sizes)]
    )
    overview, apart = Study(frame).figure("collapse_and_specialisation_vs_num_rules")
    words = "left out, because not run with R = 2, 8: RNN regression; "
    assert words in overview.note
    assert "left out" not in apart.note
    assert "left out" not in Study(frame).figure("paired_comparisons")[0].note
    lost = frame["variant"].eq("monolithic") & frame["num_rules"].eq(2) & frame["data_seed"].eq(1)
    frame["value"] = frame["value"].mask(lost & frame["measure"].eq("loss"))
    (picture,) = Study(frame).figure("paired_comparisons")
    assert picture.note.endswith("Incomplete: left out: 2 values that are not finite.")  # two conditions


def test_only_a_bar_that_cannot_be_seen_is_labelled_0():
    frame = results_of(rules=[4], data_seeds=[0], seeds=[0], checkpoints=["tail"])
    is_loss, is_oracle = frame["measure"].eq("loss"), frame["variant"].eq("gt_modular")
    small = frame["value"].mask(is_loss, frame["value"] / 100)
    for values, labels in (
        (small, [[], []]),
        (small.mask(is_loss & is_oracle, 0.0), [["0"], ["0"]]),
        (small.mask(is_loss & is_oracle, 1e-5), [[], []]),  # on a logarithmic axis
    ):
        (picture,) = Study(frame.assign(value=values)).figure("performance_vs_num_rules")
        (body,) = picture.figure.subfigs
        assert [[text.get_text() for text in axes.texts] for axes in body.axes] == labels


def test_a_variant_whose_tasks_lie_in_two_folders_has_one_matrix(tmp_path, undrawn):
    sizes = {"rules": [2], "seeds": [0], "variants": ["modular"]}
    study_of(tmp_path / "b", data_seeds=[2, 3], **sizes)
    study_of(tmp_path / "a", data_seeds=[4, 5], **sizes)
    study = Study.read([tmp_path / "a", tmp_path / "b"])
    for name, matrices in (("activation", 1), ("activation_evolution", 2)):  # before and after training
        (picture,) = study.figure(name)
        assert len(picture.table) == matrices * 2 * 2
        assert "One model per matrix: task 2, seed 0; width 32." in picture.note


def test_a_line_over_other_widths_at_each_point_is_said(undrawn):
    """Width 64 was run with R = 2 alone."""
    few = {"data_seeds": [0, 1], "seeds": [0], "checkpoints": ["tail"], "widths": [32, 64]}
    whole, words = results_of(rules=[2, 8], **few), "points of a line are over different sizes"
    part = whole[whole["num_rules"].eq(2) | whole["width"].eq(32)]
    for frame, said in ((whole, [False, False]), (part, [True, False])):
        for name in ("performance_vs_num_rules", "collapse_and_specialisation_vs_num_rules"):
            notes = [picture.note for picture in Study(frame).figure(name)[:2]]  # the second: of width 32
            assert [words in note for note in notes] == said
        assert words not in Study(frame).figure("collapse_and_specialisation_bars")[0].note
