import contextlib

import numpy as np
import pandas as pd
import pytest
from simulated_results import simulate

from modtf.analysis import Study, performance_rows, random_baseline, summarise
from modtf.analysis.figures import FIGURES, NothingToDraw, panels
from modtf.analysis.figures.averages import average
from modtf.analysis.figures.rows import performance
from modtf.analysis.figures.save import VECTOR, save
from modtf.analysis.figures.style import looks
from modtf.models.routers import ROUTERS
from modtf.protocol import Training
from modtf.results import VARIANTS


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two kinds of regression, two R and widths, two tasks x two seeds."""
    sizes = {"settings": ["regression"], "rules": (2, 8), "widths": (32, 64), "num_evaluations": 2}
    kinds = [("mlp", {}), ("mha", {"search": "v2"})]
    return Study.read(
        simulate(tmp_path_factory.mktemp("whole"), kinds, data_seeds=range(2), seeds=range(2), **sizes)
    )


@pytest.fixture(scope="module")
def partial(tmp_path_factory):
    """One task and seed here, two tasks there, variants missing, a width that only one kind has."""
    out = tmp_path_factory.mktemp("partial")
    few = {"data_seeds": [0], "seeds": [0], "num_evaluations": 2}
    simulate(out, settings=["regression"], rules=(2, 8), variants=["modular", "gt_modular"], **few)
    simulate(out, settings=["classification"], rules=[8], widths=[64], variants=["modular"], **few)
    simulate(out, [("rnn", {})], ["regression"], rules=[8], data_seeds=[1, 2], seeds=[0], num_evaluations=2)
    return Study.read(out)


@pytest.fixture(scope="module")
def scattered(tmp_path_factory):
    """One variant at one R, another at another."""
    out = tmp_path_factory.mktemp("scattered")
    few = {"settings": ["regression"], "num_evaluations": 2}
    simulate(out, rules=[2], variants=["modular"], **few)
    simulate(out, rules=[8], variants=["sparse"], **few)
    return Study.read(out)


def texts(picture):
    (body,) = picture.figure.subfigs
    return [text.get_text() for text in [*picture.figure.texts, *body.texts]]


def legend(picture):
    (body,) = picture.figure.subfigs
    return [text.get_text() for found in body.legends for text in found.get_texts()]


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_says_what_it_stands_on(name, whole):
    pictures = whole.figure(name)
    assert pictures
    assert len({picture.name for picture in pictures}) == len(pictures)
    for picture in pictures:
        assert picture.name.startswith(name)
        said = ("models of 2 tasks", "pairs of 2 tasks", "128 models", "One model per matrix")
        assert any(words in picture.note for words in said)
        assert "Incomplete" not in picture.note
        assert not picture.table.empty
        assert picture.title in texts(picture)
        assert picture.note in [text.replace("\n", " ") for text in texts(picture)]  # not only on the page


@pytest.mark.parametrize("name", FIGURES)
def test_partial_grids_are_drawn_and_say_so(name, partial):
    if name == "measures_judged":
        with pytest.raises(NothingToDraw, match="there are no three models with several modules in any task"):
            partial.figure(name)
        return
    pictures = partial.figure(name)
    assert pictures
    complete = {"activation", "activation_evolution", "performance_vs_seq_len"}
    complete |= {"against_modular", "paired_comparisons"}
    assert name in complete or all("Incomplete: " in picture.note for picture in pictures[:1])


@pytest.mark.parametrize("name", FIGURES)
def test_one_model_is_a_figure_or_a_reason(name, partial):
    (cell,) = [cell for cell in partial.cells if cell.cell["setting"] == "classification"]
    rows = partial.results[partial.results["folder"] == str(cell.path)]
    one = Study(rows.drop(columns="router"), partial.history.iloc[:0], cells=[cell])
    if name.startswith(("collapse", "activation", "performance_vs_num_rules")):
        said = [picture.note.lower() for picture in one.figure(name)]
        assert all("each mean over 1 model of 1 task; no intervals" in s or "one model" in s for s in said)
    else:
        with pytest.raises(NothingToDraw, match=r"^(no|only|there) .+[^.]$"):
            one.figure(name)


@pytest.mark.parametrize("name", FIGURES)
def test_variants_that_share_no_size_are_a_figure_or_a_reason(name, scattered):
    with contextlib.suppress(NothingToDraw):
        assert scattered.figure(name)
    with pytest.raises(NothingToDraw, match="all of modular, sparse; choose with --variant"):
        scattered.figure("collapse_and_specialisation_bars")


def test_a_point_is_the_mean_of_the_same_sizes_for_every_variant(whole):
    rows = performance(whole.results)
    smaller = rows[(rows["variant"] != "modular") | (rows["width"] == 32)]
    table, note = average(whole, smaller, ["kind", "where", "measure", "num_rules", "variant"])
    expected = summarise(rows[rows["width"] == 32], ["kind", "where", "measure", "num_rules", "variant"])
    pd.testing.assert_frame_equal(table, expected)
    assert "width 32;" in note
    assert "sizes that not all variants were run with are left out" in note


def test_the_overview_averages_widths_and_options_within_a_data_seed(whole):
    overview, *by_width = whole.figure("performance_vs_num_rules")
    assert [picture.name[-4:] for picture in by_width] == ["_e32", "_e64"]
    assert set(overview.table["title"].astype(str)) == {"MLP", "MHA"}
    assert "means over width 32, 64; out of distribution (MLP): inputs x 2; out" in overview.note
    rows = performance_rows(whole.results).query("arch == 'mlp' and num_rules == 8 and variant == 'modular'")
    sample = rows[rows["distribution"] == "in distribution"].groupby("data_seed")["value"].mean()
    point = overview.table.query("title == 'MLP' and num_rules == 8 and variant == 'modular'").iloc[0]
    assert point["mean"] == pytest.approx(sample.mean())
    assert (point["num_tasks"], point["num_models"]) == (2, 8)


def test_lines_are_the_means_of_the_table(whole):
    picture = whole.figure("performance_vs_num_rules")[0]
    rows = picture.table.query("title == 'MLP' and `where` == 'regression: in distribution: Loss'")
    drawn = {line.get_color(): line for line in picture.figure.axes[0].lines if line.get_linestyle() == "-"}
    colours = {name: look.colour for name, look in looks(rows["variant"]).items()}
    assert set(drawn) == set(colours.values())
    for variant in VARIANTS:
        expected = rows[rows["variant"] == variant].sort_values("num_rules")["mean"]
        np.testing.assert_allclose(drawn[colours[variant]].get_ydata(orig=False), expected)


def test_measures_are_drawn_with_random_activation(whole):
    lines, *_ = whole.figure("collapse_and_specialisation_vs_num_rules")
    assert legend(lines) == ["modular", "modular_op", "gt_modular", "random"]
    alignment = lines.figure.axes[2]
    (dashed,) = [line for line in alignment.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(dashed.get_ydata(orig=False), [0.5, 0.875])
    bar, *_ = whole.figure("collapse_and_specialisation_bars")
    chance = random_baseline([2, 8]).groupby("measure")["value"].mean()
    found = bar.table[bar.table["variant"] == "random"].set_index("measure")["mean"]
    np.testing.assert_allclose([found[measure] for measure in chance.index], chance)
    assert "Each mean over 32 models of 2 tasks" in bar.note  # random is none of them


def test_kinds_trained_in_different_ways_are_averaged_in_the_overview(whole):
    """As published: an mlp trains for 100,000 steps, the others for 500,000."""
    results = whole.results.drop(columns="router")
    apart = Study(results.assign(protocol=results["arch"].astype(str)))
    overview, *_ = apart.figure("collapse_and_specialisation_vs_num_rules")
    pd.testing.assert_frame_equal(
        overview.table, whole.figure("collapse_and_specialisation_vs_num_rules")[0].table
    )


def test_models_that_all_diverged_leave_an_empty_panel(foreign):
    results = foreign.results.drop(columns="router")
    lost = Study(results.assign(value=results["value"].where(results["measure"] != "error")))
    (picture,) = lost.figure("performance_vs_num_rules")
    assert picture.table["mean"].isna().all()
    assert "values not finite" in picture.note


def test_training_curves_begin_at_step_0_and_show_error(foreign, whole):
    (average_, *_) = foreign.figure("training_curves")
    assert set(average_.table["measure"]) == {"error"}
    assert average_.table["step"].min() == 0
    assert average_.figure.axes[0].get_xlim()[0] == 0
    assert "checkpoint" not in average_.note
    names = [picture.name for picture in whole.figure("training_curves")]
    assert names == [f"training_curves{suffix}" for suffix in ("", "_by_family", "_e32", "_e64")]


def test_sequence_lengths_come_from_the_conditions_of_the_family(whole):
    pictures = whole.figure("performance_vs_seq_len")
    assert [picture.name[-10:] for picture in pictures] == [
        f"scale{scale}_e{width}" for scale in (1, 2) for width in (32, 64)
    ]
    assert set(pictures[0].table["tokens"]) == {3, 5, 10, 20, 30}
    assert set(pictures[0].table["panel"]) == {"MHA v2 regression: Loss"}


def test_variants_of_users_keep_their_look_and_diverged_models_are_said(foreign):
    (picture,) = foreign.figure("performance_vs_num_rules")
    shown = ["monolithic", "modular", "modular (modules=3)", "modular_op", "gt_modular", "sparse"]
    assert legend(picture) == shown
    assert "2 values not finite and left out" in picture.note
    found = looks(picture.table["variant"])
    assert len(set(found.values())) == len(shown)
    (matrices,) = foreign.figure("activation")
    assert set(matrices.table["variant"]) == set(shown[1:])
    of_three = matrices.table[matrices.table["variant"] == "modular (modules=3)"]
    assert (of_three["rule"].max(), of_three["module"].max()) == (3, 2)


def test_modules_are_ordered_by_their_match(whole):
    for picture in whole.figure("activation"):
        matrix = picture.table.query("variant == 'gt_modular' and num_rules == 8")["probability"].to_numpy()
        np.testing.assert_array_equal(matrix.reshape(8, 8), np.eye(8))


def test_the_member_and_cell_can_be_chosen(whole):
    picture, *_ = whole.figure("activation", data_seed=1, seed=1, width=64)
    assert "task 1, seed 1; width 64" in picture.note
    picture, *_ = whole.figure("activation_evolution", num_rules=2)
    assert "R = 2" in picture.title
    with pytest.raises(NothingToDraw, match="width 999"):
        whole.figure("activation", width=999)
    with pytest.raises(NothingToDraw, match="task 7"):
        whole.figure("activation", data_seed=7)


def test_nothing_is_cut_and_panels_do_not_overlap(foreign):
    (picture,) = foreign.figure("performance_vs_num_rules")
    picture.figure.draw_without_rendering()
    (body,) = picture.figure.subfigs
    inside = picture.figure.bbox.padded(1)
    boxes = [axes.get_tightbbox() for axes in body.axes]
    drawn = [*boxes, *(found.get_window_extent() for found in body.legends)]
    drawn += [text.get_window_extent() for text in [*picture.figure.texts, *body.texts]]
    assert all(inside.containsx(x) and inside.containsy(y) for box in drawn for x, y in (box.min, box.max))
    for place, box in enumerate(drawn):
        assert not any(box.padded(-1).overlaps(other) for other in drawn[place + 1 :])


def test_files_are_the_same_each_time(partial, tmp_path):
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        (picture,) = partial.figure("paired_comparisons")
        save(picture, tmp_path / folder, tmp_path / folder, list(VECTOR))
    for suffix in ("png", "csv", *VECTOR):
        first, second = (tmp_path / f / f"paired_comparisons.{suffix}" for f in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()


def test_a_mean_over_kinds_does_not_change_them_along_its_line(tmp_path):
    """mlp at R = 2, 8, 32, mha at 2, 8: averaged lines are those of mlp alone; without such a kind, none."""
    few = {"settings": ["regression"], "data_seeds": range(2), "num_evaluations": 1}
    simulate(tmp_path / "mlp", rules=(2, 8, 32), **few)
    simulate(tmp_path / "mha", [("mha", {"search": "v1"})], rules=(2, 8), **few)
    both = Study.read(tmp_path)
    first, *others = both.figure("collapse_and_specialisation_vs_num_rules")
    learned = first.table[first.table["variant"] != "random"]
    assert set(learned["num_models"]) == {4}  # two tasks x two seeds, of one kind
    assert [set(picture.table["kind"]) for picture in others] == [{"MLP regression", "MHA v1 regression"}]
    simulate(tmp_path / "rnn", [("rnn", {})], rules=(4,), **few)
    names = [p.name for p in Study.read(tmp_path).figure("collapse_and_specialisation_vs_num_rules")]
    assert names == ["collapse_and_specialisation_vs_num_rules_e32"]


def test_curves_need_a_step_that_cells_share(tmp_path):
    shared = {"settings": ["regression"], "rules": [8], "data_seeds": [0], "seeds": [0], "num_evaluations": 1}
    simulate(tmp_path, [("mlp", {})], **shared)
    simulate(tmp_path, [("rnn", {})], training=Training(steps=3000, learning_rate=1e-4), **shared)
    names = [picture.name for picture in Study.read(tmp_path).figure("training_curves")]
    assert names == ["training_curves_by_family", "training_curves_e32"]  # averaged over both: step 0 alone
    study = Study.read(tmp_path)
    study.history = study.history[study.history["step"] == 0]
    with pytest.raises(NothingToDraw, match="no cells share a step beyond the first"):
        study.figure("training_curves")


def test_as_many_variants_as_there_are_routers_can_be_told_apart():
    found = looks(pd.Series(list(ROUTERS)))
    assert len(set(found.values())) == len(ROUTERS)


def test_any_table_can_be_drawn_in_panels():
    table = pd.DataFrame(
        {"variant": ["mine", "yours"], "side": ["left: 1", "right"], "up": [2, 1], "y": [1, 2]}
    )
    picture = panels(
        lambda axes, part, looks: axes.plot(part["up"], "o", label=part["variant"].iloc[0]),
        table, "name", "Title", "A note.", row="up", column="side",
    )  # fmt: skip
    titles = [axes.get_title() for axes in picture.figure.axes]
    assert titles == ["left\n1", "right", "", ""]
    assert [axes.get_ylabel() for axes in picture.figure.axes[::2]] == ["up = 1", "up = 2"]
    assert [axes.texts[0].get_text() for axes in picture.figure.axes if axes.texts] == ["not run"] * 2
    assert legend(picture) == ["mine", "yours"]
