"""One drawing of every registered figure: its note, legend, lines and layout."""

from functools import cache
from importlib import import_module
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from simulated_results import results_of, study_of

from modtf.analysis import Study, figures, performance_rows, random_baseline
from modtf.analysis.figures import NothingToDraw, layout, panels
from modtf.analysis.figures.activation import as_table, heat_maps
from modtf.analysis.figures.layout import looks
from modtf.analysis.figures.registry import MODULES
from modtf.models.routers import ROUTERS
from modtf.pages.pictures import HEAT, start_at_zero
from modtf.results import VARIANTS
from modtf.tasks.families import FAMILIES

NAMES = ("Choice", "NothingToDraw", "Picture", "average", "means", "note", "panels", "performance")
FEW = {"data_seeds": [0], "seeds": [0]}

#: figures of every experiment; those of one experiment are drawn in tests/modtf/experiments
SHARED = list(MODULES)
OF_MEANS = ("collapse_and_specialisation_bars", "performance_vs_num_rules")  # drawn of a single model, too
KINDS: dict[str, list[str]] = {arch: [v.name for v in FAMILIES[arch].variants][:12] for arch in FAMILIES}


@pytest.fixture(scope="module")
def partial(tmp_path_factory):
    """An uneven study: different numbers of tasks, missing variants, a width of only one task type."""
    out = tmp_path_factory.mktemp("partial")
    study_of(out, rules=(2, 8), variants=["modular", "gt_modular"], **FEW)
    study_of(out, settings=["classification"], rules=[8], widths=[64], variants=["modular"], **FEW)
    return study_of(out, kinds=[("rnn", {})], rules=[8], data_seeds=[1, 2], seeds=[0])


@pytest.fixture(scope="module")
def drawn(whole):
    """drawn(name) -> the pictures of the whole study, each drawn once."""
    return cache(whole.figure)


def test_names_that_are_given_out_are_no_modules():
    """A module of the same name would replace the public name once it is imported."""
    for module in set(MODULES.values()):
        import_module(f"modtf.analysis.figures.{module}")
    assert not [name for name in NAMES if isinstance(getattr(figures, name), ModuleType)]


def legend(picture):
    (body,) = picture.figure.subfigs
    return [text.get_text() for each in body.legends for text in each.get_texts()]


def texts_of(picture):
    (body,) = picture.figure.subfigs
    return {text.get_text().replace("\n", " ") for text in (*picture.figure.texts, *body.texts)}


@pytest.mark.parametrize("name", SHARED)
def test_every_figure_says_what_it_stands_on(name, drawn):
    pictures, sizes = (
        drawn(name),
        ("models of 2 tasks", "pairs of 2 tasks", "128 models", "One model per matrix"),
    )
    assert len({picture.name for picture in pictures}) == len(pictures) > 0
    for picture in pictures:
        assert picture.name.startswith(name)
        assert any(words in picture.note for words in sizes)
        assert "Incomplete" not in picture.note
        assert not picture.table.empty
        assert {picture.title, picture.note} <= texts_of(picture)  # not only on the page


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
def test_partial_grids_are_drawn_and_say_so(name, partial):
    whole = ("activation", "against", "collapse_and_specialisation_vs", "paired", "performance_vs_seq_len")
    complete = name.startswith(whole)
    undrawable = {
        "measures_judged": "no task has three models with several modules",
        "ranking_pies": "one variant has all votes in every pie",
    }
    if name in undrawable:
        with pytest.raises(NothingToDraw, match=undrawable[name]):
            partial.figure(name)
    else:
        first, *_ = partial.figure(name)
        assert complete or "Incomplete: " in first.note


@pytest.mark.parametrize("name", [name for name in SHARED if not name.startswith("activation")])
def test_one_model_is_a_figure_or_a_reason(name, partial, undrawn):
    (cell,) = [cell for cell in partial.cells if cell.cell["setting"] == "classification"]
    rows = partial.results[partial.results["folder"] == str(cell.path)]
    one = Study(rows.drop(columns="router"), partial.history.iloc[:0], cells=[cell])
    if name in OF_MEANS:
        notes = [picture.note.lower() for picture in one.figure(name)]
        assert all("each mean over 1 model of 1 task; no intervals" in note for note in notes)
    else:
        with pytest.raises(NothingToDraw, match=r"^(no|only|there) .+[^.]$"):
            one.figure(name)


def test_variants_of_no_common_size_have_no_overview():
    parts = [results_of(rules=[r], variants=[name], **FEW) for r, name in ((2, "modular"), (8, "sparse"))]
    with pytest.raises(NothingToDraw, match="all of modular, sparse; choose with --variant"):
        Study(pd.concat(parts, ignore_index=True)).figure("collapse_and_specialisation_bars")


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
    rows = overview.table.query("title == 'MLP' and `where` == 'regression: in distribution: Loss'")
    lines = {line.get_color(): line for line in overview.figure.axes[0].lines if line.get_linestyle() == "-"}
    colours = {name: look.colour for name, look in looks(rows["variant"]).items()}
    assert set(lines) == set(colours.values())
    for variant in VARIANTS:
        expected = rows[rows["variant"] == variant].sort_values("num_rules")["mean"]
        np.testing.assert_allclose(lines[colours[variant]].get_ydata(orig=False), expected)


def test_named_rules_stay_in_order_if_models_have_different_numbers_of_rules():
    """pandas joins two lists of names to plain text, which it sorts: rule_10 would come before rule_2."""
    probs = np.arange(1.0, 12.0)
    tables = [
        as_table(
            np.eye(r), [f"rule_{i}" for i in range(r)], probs[:r] / probs[:r].sum(), num_rules=r, variant="a"
        )
        for r in (3, 11)
    ]
    picture = heat_maps(tables, "map", "Map", "", "num_rules", "variant")
    small, large = picture.figure.subfigs[0].axes[:2]
    for axes, r in ((small, 3), (large, 11)):
        assert [text.get_text() for text in axes.get_yticklabels()] == [f"rule_{i}" for i in range(r)]
        np.testing.assert_array_equal(axes.images[0].get_array(), np.eye(r))
        assert [text.get_text() for text in axes.get_xticklabels()] == ["alignment 0.00"]


@pytest.mark.parametrize(("rule_probs", "text"), [(None, "alignment 0.25"), ((0.8, 0.2), "alignment 0.10")])
def test_a_heat_map_shows_the_alignment_of_the_rules_frequencies(rule_probs, text):
    values = np.array([[1.0, 0.0], [0.5, 0.5]])  # half of the second rule's tokens are not matched
    picture = heat_maps(
        [as_table(values, None, rule_probs, variant="modular")], "map", "Map", "", None, "variant"
    )
    (label,) = picture.figure.axes[0].get_xticklabels()
    assert label.get_text() == text


def test_measures_are_drawn_with_random_activation(drawn):
    lines, *_ = drawn("collapse_and_specialisation_vs_num_rules")
    assert legend(lines) == ["modular", "modular_op", "gt_modular", "random"]
    (dashed,) = [line for line in lines.figure.axes[2].lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(dashed.get_ydata(orig=False), [0.5, 0.875])  # alignment
    bar, *_ = drawn("collapse_and_specialisation_bars")
    chance = random_baseline([2, 8]).groupby("measure")["value"].mean()
    means = bar.table[bar.table["variant"] == "random"].set_index("measure")["mean"]
    np.testing.assert_allclose([means[measure] for measure in chance.index], chance)
    assert "Each mean over 32 models of 2 tasks" in bar.note  # random is none of them


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


def test_variants_of_users_keep_their_look_and_diverged_models_are_said(foreign):
    (picture,) = foreign.figure("performance_vs_num_rules")
    shown = ["monolithic", "modular", "modular (modules=3)", "modular_op", "gt_modular", "sparse"]
    assert legend(picture) == shown
    assert "left out: 2 values that are not finite" in picture.note
    assert len(set(looks(picture.table["variant"]).values())) == len(shown)
    (matrices,) = foreign.figure("activation")
    assert set(matrices.table["variant"]) == set(shown[1:])
    of_three = matrices.table[matrices.table["variant"] == "modular (modules=3)"]
    assert (of_three["rule"].max(), of_three["module"].max()) == (3, 2)


def test_a_model_that_did_not_diverge_is_shown(tmp_path):
    study = study_of(tmp_path, rules=[2], variants=["modular"])
    (cell,) = study.cells
    path = cell.path / "activation.npz"
    arrays = dict(np.load(path))
    for name in ("last", "best", "tail", "history"):
        if name in arrays:
            arrays[name] = np.array(arrays[name], float)
            arrays[name][..., 0, :, :] = np.nan  # of the first member
    np.savez(path, **arrays)
    (cell.path / "manifest.json").unlink(missing_ok=True)
    for name in ("activation", "activation_evolution"):
        (picture, *_) = study.figure(name)
        assert "task 0, seed 1" in picture.note
        assert np.isfinite(picture.table["probability"]).all()


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
    boxes = [axes.get_tightbbox() for axes in body.axes]
    boxes += [part.get_window_extent() for part in [*body.legends, *picture.figure.texts, *body.texts]]
    assert all(inside.containsx(x) and inside.containsy(y) for box in boxes for x, y in (box.min, box.max))
    for number, box in enumerate(boxes):
        assert not any(box.padded(-1).overlaps(other) for other in boxes[number + 1 :])


@pytest.mark.parametrize("names", [*KINDS.values(), [*ROUTERS]], ids=[*KINDS, "routers"])
def test_no_two_variants_look_alike(names):
    assert len(set(looks(pd.Series(names)).values())) == len(names) > 1


def test_any_table_can_be_drawn_in_panels():
    table = pd.DataFrame({"variant": ["mine", "yours"], "side": ["left: 1", "right"], "up": [2, 1]})

    def mark(axes, part, looks):
        axes.plot(part["up"], "o", label=part["variant"].iloc[0])

    picture = panels(mark, table, "name", "Title", "A note.", row="up", column="side")
    axes = picture.figure.axes
    assert [each.get_title() for each in axes] == ["Left, 1", "right", "", ""]
    assert [each.get_ylabel() for each in axes[::2]] == ["up = 1", "up = 2"]
    assert [each.texts[0].get_text() for each in axes if each.texts] == ["not run"] * 2
    assert legend(picture) == ["mine", "yours"]


def test_a_legend_has_at_most_six_series():
    """The other variants share one grey, and one line of the legend."""
    names = [f"router_{number}" for number in range(9)]
    table = pd.DataFrame(
        {"variant": names * 2, "x": np.repeat([1, 2], 9), "mean": range(18), "measure": "loss"}
    )
    table = table.assign(low=table["mean"] - 1.0, high=table["mean"] + 1.0)
    picture = panels(lambda axes, part, looks: layout.curves(axes, part, looks, "x"), table, "few", "Few", "")
    assert legend(picture) == [*names[:5], "4 others"]
    (body,) = picture.figure.subfigs
    colours = [line.get_color() for line in body.axes[0].lines]
    assert (len(set(colours)), len(set(colours[5:]))) == (6, 1)


def test_heat_is_darker_for_more_and_white_for_nothing():
    luminance = HEAT(np.linspace(0, 1, 50))[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert luminance[0] == pytest.approx(1.0)
    assert (np.diff(luminance) < 0).all()


@pytest.mark.parametrize(("values", "limits"), [([0, 0], (0, 1)), ([0, 3], (0, None)), ([-1, 3], None)])
def test_an_axis_begins_at_zero_if_nothing_is_below(values, limits):
    axes = Figure().subplots()
    axes.plot([0, 1], values)
    start_at_zero(axes)
    low, high = axes.get_ylim()
    if limits is None:
        assert low < -1
        return
    assert low == limits[0]
    assert limits[1] in (None, high)
