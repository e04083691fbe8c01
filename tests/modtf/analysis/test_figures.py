from functools import cache
from importlib import import_module
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from simulated_results import study_of

from modtf.analysis import Study, figures, performance_rows, random_baseline, summarise
from modtf.analysis.figures import NothingToDraw, Picture, average, performance
from modtf.analysis.figures.layout import looks
from modtf.analysis.figures.registry import MODULES
from modtf.protocol import Training
from modtf.results import VARIANTS

NAMES = ("Choice", "NothingToDraw", "Picture", "average", "means", "note", "panels", "performance")
FEW = {"data_seeds": [0], "seeds": [0]}

#: less what experiments draw of their own studies
SHARED = [name for name, module in MODULES.items() if module.startswith("analysis")]


@pytest.fixture(scope="module")
def partial(tmp_path_factory):
    """An uneven study: different numbers of tasks, missing variants, a width of only one task type."""
    out = tmp_path_factory.mktemp("partial")
    study_of(out, rules=(2, 8), variants=["modular", "gt_modular"], **FEW)
    study_of(out, settings=["classification"], rules=[8], widths=[64], variants=["modular"], **FEW)
    return study_of(out, kinds=[("rnn", {})], rules=[8], data_seeds=[1, 2], seeds=[0])


@pytest.fixture(scope="module")
def scattered(tmp_path_factory):
    """One variant at one R, another at another."""
    out = tmp_path_factory.mktemp("scattered")
    study_of(out, rules=[2], variants=["modular"])
    return study_of(out, rules=[8], variants=["sparse"])


@pytest.fixture(scope="module")
def drawn(whole):
    """drawn(name) -> the pictures of the whole study, each drawn once."""
    return cache(whole.figure)


@pytest.fixture
def undrawn(monkeypatch):
    """Return pictures without panels, for tests of their tables and notes."""

    def blank(mark, table, name, title, note, *parts, **named):
        return Picture(name, title, note, Figure(), table)

    for module in ("averages", "ranking", "pairs", "measures_judged"):
        monkeypatch.setattr(f"modtf.analysis.figures.{module}.panels", blank)
    blank_maps = lambda tables, *drawn: blank(None, pd.concat(tables), *drawn)  # noqa: E731
    monkeypatch.setattr("modtf.analysis.figures.activation.heat_maps", blank_maps)


def test_names_that_are_given_out_are_no_modules():
    """A module of the same name would replace the public name once it is imported."""
    for module in set(MODULES.values()):
        import_module(f"modtf.{module}")
    assert not [name for name in NAMES if isinstance(getattr(figures, name), ModuleType)]


def legend(picture):
    (body,) = picture.figure.subfigs
    return [text.get_text() for found in body.legends for text in found.get_texts()]


@pytest.mark.parametrize("name", SHARED)
def test_every_figure_says_what_it_stands_on(name, drawn):
    pictures = drawn(name)
    assert len({picture.name for picture in pictures}) == len(pictures) > 0
    for picture in pictures:
        assert picture.name.startswith(name)
        said = ("models of 2 tasks", "pairs of 2 tasks", "128 models", "One model per matrix")
        assert any(words in picture.note for words in said)
        assert "Incomplete" not in picture.note
        assert not picture.table.empty
        (body,) = picture.figure.subfigs
        found = [text.get_text().replace("\n", " ") for text in (*picture.figure.texts, *body.texts)]
        assert {picture.title, picture.note} <= set(found)  # not only on the page


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
def test_partial_grids_are_drawn_and_say_so(name, partial):
    whole = ("activation", "against", "collapse_and_specialisation_vs", "paired", "performance_vs_seq_len")
    complete = name.startswith(whole)
    if name == "measures_judged":
        with pytest.raises(NothingToDraw, match="there are no three models with several modules in any task"):
            partial.figure(name)
    else:
        first, *_ = partial.figure(name)
        assert complete or "Incomplete: " in first.note


@pytest.mark.parametrize("name", [name for name in SHARED if not name.startswith("activation")])
def test_variants_of_no_common_size_and_one_model_are_a_figure_or_a_reason(name, partial, scattered, undrawn):
    if name == "collapse_and_specialisation_bars":
        with pytest.raises(NothingToDraw, match="all of modular, sparse; choose with --variant"):
            scattered.figure(name)
    (cell,) = [cell for cell in partial.cells if cell.cell["setting"] == "classification"]
    rows = partial.results[partial.results["folder"] == str(cell.path)]
    one = Study(rows.drop(columns="router"), partial.history.iloc[:0], cells=[cell])
    if name in ("collapse_and_specialisation_bars", "performance_vs_num_rules"):
        said = [picture.note.lower() for picture in one.figure(name)]
        assert all("each mean over 1 model of 1 task; no intervals" in s for s in said)
    else:
        with pytest.raises(NothingToDraw, match=r"^(no|only|there) .+[^.]$"):
            one.figure(name)


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
        assert overview.note.endswith("not run with all sizes and left out: modular (modules=3), switch.")
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
    assert "sizes that not all variants were run with are left out" in note


def test_the_overview_draws_means_over_widths_and_options_within_a_data_seed(whole, drawn):
    overview, *by_width = drawn("performance_vs_num_rules")
    assert [picture.name[-4:] for picture in by_width] == ["_e32", "_e64"]
    assert set(overview.table["title"].astype(str)) == {"MLP", "MHA"}
    assert "means over width 32, 64; out of distribution (MLP): inputs x 2; out" in overview.note
    rows = performance_rows(whole.results).query("arch == 'mlp' and num_rules == 8 and variant == 'modular'")
    sample = rows[rows["distribution"] == "in distribution"].groupby("data_seed")["value"].mean()
    point = overview.table.query("title == 'MLP' and num_rules == 8 and variant == 'modular'").iloc[0]
    assert point["mean"] == pytest.approx(sample.mean())
    assert (point["num_tasks"], point["num_models"]) == (2, 8)
    picture = overview
    rows = picture.table.query("title == 'MLP' and `where` == 'regression: in distribution: Loss'")
    found = {line.get_color(): line for line in picture.figure.axes[0].lines if line.get_linestyle() == "-"}
    colours = {name: look.colour for name, look in looks(rows["variant"]).items()}
    assert set(found) == set(colours.values())
    for variant in VARIANTS:
        expected = rows[rows["variant"] == variant].sort_values("num_rules")["mean"]
        np.testing.assert_allclose(found[colours[variant]].get_ydata(orig=False), expected)


def test_measures_are_drawn_with_random_activation(drawn):
    lines, *_ = drawn("collapse_and_specialisation_vs_num_rules")
    assert legend(lines) == ["modular", "modular_op", "gt_modular", "random"]
    (dashed,) = [line for line in lines.figure.axes[2].lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(dashed.get_ydata(orig=False), [0.5, 0.875])  # alignment
    bar, *_ = drawn("collapse_and_specialisation_bars")
    chance = random_baseline([2, 8]).groupby("measure")["value"].mean()
    found = bar.table[bar.table["variant"] == "random"].set_index("measure")["mean"]
    np.testing.assert_allclose([found[measure] for measure in chance.index], chance)
    assert "Each mean over 32 models of 2 tasks" in bar.note  # random is none of them


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
    lines = study.table().splitlines()[2:5]
    assert lines[0].split()[-6:] == ["collapse", "avg", "alignment", "alignment", "parameters", "seconds"]
    assert (lines[1].split(), set(lines[2])) == (["encoder", "root"] * 2, {"-"})


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
    assert "values not finite" in picture.note


def test_curves_begin_at_step_0_and_lengths_come_from_the_conditions_of_the_family(foreign, drawn):
    (average_, *_) = foreign.figure("training_curves")
    assert set(average_.table["measure"]) == {"error"}
    assert average_.table["step"].min() == average_.figure.axes[0].get_xlim()[0] == 0
    assert "checkpoint" not in average_.note
    pictures = drawn("performance_vs_seq_len")
    names = [f"scale{scale}_e{width}" for scale in (1, 2) for width in (32, 64)]
    assert [picture.name[-10:] for picture in pictures] == names
    assert set(pictures[0].table["tokens"]) == {3, 5, 10, 20, 30}
    assert set(pictures[0].table["panel"]) == {"MHA v2 regression: Loss"}
    names = [picture.name for picture in drawn("training_curves")]
    assert names == [f"training_curves{suffix}" for suffix in ("", "_by_family", "_e32", "_e64")]


def test_nothing_of_one_value_is_drawn(tmp_path, undrawn):
    """The results are those of `modtf run`: all variants on one task."""
    study = study_of(tmp_path, rules=[8], data_seeds=[0])
    for name, reason in (
        ("ranking", "a single task was run"),
        ("ranking_pies", "a single task was run"),
        ("performance_vs_width", "only one width, 32"),
        ("collapse_and_specialisation_vs_num_rules", "only one number of rules, 8"),
    ):
        with pytest.raises(NothingToDraw, match=reason):
            study.figure(name)
    names = {picture.name for picture in study.figure("performance_vs_num_rules")}
    assert names == {"performance_bars"}


def test_curves_need_a_step_that_cells_share(tmp_path, undrawn):
    shared, shorter = {"rules": [8], **FEW}, Training(steps=3000, learning_rate=1e-4)
    study_of(tmp_path, **shared)
    study = study_of(tmp_path, kinds=[("rnn", {})], training=shorter, **shared)
    names = [picture.name for picture in study.figure("training_curves")]
    assert names == ["training_curves_by_family", "training_curves_e32"]  # averaged over both: step 0 alone
    study.history = study.history[study.history["step"] == 0]
    with pytest.raises(NothingToDraw, match="no cells share a step beyond the first"):
        study.figure("training_curves")


def test_variants_of_users_keep_their_look_and_diverged_models_are_said(foreign):
    (picture,) = foreign.figure("performance_vs_num_rules")
    shown = ["monolithic", "modular", "modular (modules=3)", "modular_op", "gt_modular", "sparse"]
    assert legend(picture) == shown
    assert "2 values not finite and left out" in picture.note
    assert len(set(looks(picture.table["variant"]).values())) == len(shown)
    (matrices,) = foreign.figure("activation")
    assert set(matrices.table["variant"]) == set(shown[1:])
    of_three = matrices.table[matrices.table["variant"] == "modular (modules=3)"]
    assert (of_three["rule"].max(), of_three["module"].max()) == (3, 2)


def test_modules_are_ordered_by_their_match_and_the_member_and_cell_can_be_chosen(whole, drawn):
    for picture in drawn("activation"):
        matrix = picture.table.query("variant == 'gt_modular' and num_rules == 8")["probability"].to_numpy()
        np.testing.assert_array_equal(matrix.reshape(8, 8), np.eye(8))
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
    drawn = [axes.get_tightbbox() for axes in body.axes]
    drawn += [found.get_window_extent() for found in [*body.legends, *picture.figure.texts, *body.texts]]
    assert all(inside.containsx(x) and inside.containsy(y) for box in drawn for x, y in (box.min, box.max))
    for place, box in enumerate(drawn):
        assert not any(box.padded(-1).overlaps(other) for other in drawn[place + 1 :])


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
