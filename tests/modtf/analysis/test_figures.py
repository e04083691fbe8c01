import numpy as np
import pytest

from modtf.analysis.figures import FIGURES, Choice, NothingToDraw
from modtf.analysis.figures.style import COLOURS, MARKERS, colour, variants_in
from modtf.results import VARIANTS, Bootstrap, Study, find_cells, load_history, load_results


def read(out, resamples=50):
    frame = load_results(out)
    return Study(
        frame[frame["checkpoint"] == "last"], load_history(out), "last", find_cells(out), Bootstrap(resamples)
    )


@pytest.fixture(scope="module")
def whole(simulator, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    simulator.simulate(
        out,
        kinds=[("mlp", ""), ("mha", "v2")],
        settings=["regression"],
        rules=(2, 8),
        data_seeds=range(2),
        seeds=range(2),
        num_evaluations=3,
    )
    return read(out)


@pytest.fixture(scope="module")
def partial(simulator, tmp_path_factory):
    """One task and seed here, two tasks there, variants missing, a width that only one kind has."""
    out = tmp_path_factory.mktemp("partial")
    few = {"data_seeds": [0], "seeds": [0], "num_evaluations": 2}
    simulator.simulate(out, settings=["regression"], rules=(2, 8), variants=["modular", "gt_modular"], **few)
    simulator.simulate(out, settings=["classification"], rules=[8], widths=[64], variants=["modular"], **few)
    few["data_seeds"] = [1, 2]
    simulator.simulate(out, kinds=[("rnn", "")], settings=["regression"], rules=[8], **few)
    return read(out)


def draw(name, study, choice=None):
    pictures = list(FIGURES[name](study, choice or Choice()))
    assert len({picture.name for picture in pictures}) == len(pictures)
    return pictures


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_says_what_it_stands_on(name, whole):
    pictures = draw(name, whole)
    assert pictures
    for picture in pictures:
        assert picture.name.startswith(name)
        assert "model" in picture.note or "pair" in picture.note
        assert "Incomplete" not in picture.note or "only width = 32" in picture.note
        assert not picture.table.empty
        words = [text.get_text().replace("\n", " ") for text in picture.figure.texts]
        assert picture.note in words  # in the figure itself, not only on the page


@pytest.mark.parametrize("name", FIGURES)
def test_partial_grids_are_drawn_and_say_so(name, partial):
    pictures = draw(name, partial)
    assert pictures
    complete = ("activation", "activation_evolution", "paired_comparisons", "performance_vs_seq_len")
    if name not in complete:
        assert any("Incomplete" in picture.note for picture in pictures)


@pytest.mark.parametrize("name", FIGURES)
def test_one_model_is_a_figure_or_a_reason(name, simulator, tmp_path):
    simulator.simulate(
        tmp_path,
        settings=["regression"],
        rules=[2],
        variants=["modular"],
        data_seeds=[0],
        seeds=[0],
        num_evaluations=1,
    )
    if name in ("ranking", "ranking_pies", "paired_comparisons", "performance_vs_seq_len"):
        with pytest.raises(NothingToDraw, match=" "):
            draw(name, read(tmp_path))
    else:
        assert all("model" in picture.note for picture in draw(name, read(tmp_path)))


def test_averages_name_what_they_are_over(partial):
    notes = {
        p.name: p.note
        for name in ("training_curves", "collapse_and_specialisation_bars")
        for p in draw(name, partial)
    }
    for words in ("8 (mlp classification)", "2, 8 (mlp regression)", "8 (rnn regression)"):
        assert words in notes["training_curves"]
    assert "each bar a mean over R = 8" in notes["collapse_and_specialisation_bars_e64"]


def test_a_single_seed_is_said(partial):
    (one, *_) = draw("performance_vs_num_rules", partial)
    assert "over tasks alone: there is one seed each" in one.note


def test_measures_are_drawn_with_the_random_baseline(whole):
    (picture,) = draw("collapse_and_specialisation_vs_num_rules", whole)
    labels = {text.get_text() for legend in picture.figure.legends for text in legend.get_texts()}
    assert labels == {"modular", "modular_op", "gt_modular", "random"}
    alignment = picture.figure.axes[2]
    dashed = [line for line in alignment.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(dashed[0].get_ydata(), [0.5, 0.875])


def test_lines_are_the_means_of_the_table(whole):
    (picture,) = draw("performance_vs_num_rules", whole)
    rows = picture.table.query("arch == 'mlp' and setting == 'regression' and condition == 'in distribution'")
    drawn = {
        line.get_color(): line.get_ydata()
        for line in picture.figure.axes[0].lines
        if line.get_linestyle() == "-"
    }
    for variant in VARIANTS:
        expected = rows[rows["variant"] == variant].sort_values("num_rules")["mean"]
        np.testing.assert_allclose(drawn[COLOURS[variant]], expected)


def test_modules_are_ordered_by_their_match(whole):
    for picture in draw("activation", whole):
        matrix = picture.table.query("variant == 'gt_modular' and num_rules == 8")["probability"].to_numpy()
        np.testing.assert_array_equal(matrix.reshape(8, 8), np.eye(8))


def test_the_member_and_cell_can_be_chosen(whole):
    (picture, *_) = draw("activation", whole, Choice(data_seed=1, seed=1))
    assert "task 1, seed 1" in picture.note
    (picture, *_) = draw("activation_evolution", whole, Choice(num_rules=2))
    assert "R = 2" in picture.note
    with pytest.raises(NothingToDraw, match="width 999"):
        draw("activation", whole, Choice(width=999))
    with pytest.raises(NothingToDraw, match="task 7"):
        draw("activation", whole, Choice(data_seed=7))


def test_variants_look_different_and_keep_their_place():
    assert len(set(COLOURS.values())) == len(COLOURS) == len(VARIANTS) + 1
    assert len(set(MARKERS.values())) == len(MARKERS)
    import pandas as pd

    shown = variants_in(pd.DataFrame({"variant": ["mine", "random", "gt_modular", "monolithic"]}))
    assert shown == ["monolithic", "gt_modular", "mine", "random"]
    assert colour("mine", shown) not in COLOURS.values()
