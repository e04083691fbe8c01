"""Judged measures: comparison with SciPy, known answers, and coverage of intervals."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from simulated_results import World, cells_of, results_of, study_of, write_cell

from modtf import Task, metrics
from modtf.analysis import Study, judge_measures, learned_measures, print_judged
from modtf.analysis.claims import has_learned, learning_words
from modtf.analysis.claims.judge import LACKING
from modtf.analysis.figures import NothingToDraw
from modtf.analysis.learned import constant_error
from modtf.analysis.tracking import ALL, BY_RULES, COLUMNS, rank_correlation

ROUTERS = ["modular", "modular_op", "top_k", "switch", "cosine"]


def models(measures, tasks=5, seeds=2, rules=(2, 4, 8), arch="mlp", variants=ROUTERS, seed=0):
    """Return every router, R, task and seed; alignment is drawn, `measures` are functions (alignment, R,
    rng)."""
    rng = np.random.default_rng(seed)
    names = ["num_rules", "variant", "data_seed", "seed"]
    index = pd.MultiIndex.from_product([rules, variants, range(tasks), range(seeds)], names=names)
    frame = index.to_frame(index=False).assign(arch=arch, setting="regression", task_options="", width=32)
    frame["alignment"] = rng.uniform(size=len(frame)) * (1 - 1 / frame["num_rules"])
    for name, function in measures.items():
        frame[name] = function(frame["alignment"], frame["num_rules"], rng)
    return frame


def same(a, R, rng):
    return a


def row(frame, measure, over=ALL):
    table = judge_measures(frame)
    (judged,) = table[(table["measure"] == measure) & (table["over"] == over)].itertuples()
    return judged


@settings(max_examples=25, derandomize=True, deadline=None, database=None)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0, -2.0, 7.25]), min_size=3, max_size=12), st.data())
def test_the_rank_correlation_is_scipys(first, data):
    number = st.floats(-9, 9).map(lambda x: round(x, 6))
    second = data.draw(st.lists(number, min_size=len(first), max_size=len(first)))
    if min(len(set(first)), len(set(second))) == 1:
        assert np.isnan(rank_correlation(first, second))
    else:
        expected = stats.spearmanr(first, second).statistic
        assert rank_correlation(first, second) == pytest.approx(expected, abs=1e-12)
    assert np.isnan(rank_correlation([1, 2], [1, 2]))
    assert np.isnan(rank_correlation([0, 1e-13, 5e-14], [1, 2, 3]))  # rounding


@pytest.mark.parametrize(
    ("measure", "function", "expected", "verdict"),
    [
        ("collapse_avg", same, 1, "tracks"),
        ("load_variation", lambda a, R, rng: -a, -1, "misleads"),
        ("top_label_share", lambda a, R, rng: np.exp(-5 * a), None, "tracks"),  # seeds averaged on its scale
        ("effective_experts", lambda a, R, rng: 3 * a, -1, "misleads"),  # larger is better
        ("expert_overlap", lambda a, R, rng: 0.25 + 0 * a, np.nan, "undefined"),
    ],
)
@pytest.mark.parametrize("over", [ALL, BY_RULES])
def test_known_answers(measure, function, expected, verdict, over):
    """The measures are alignment itself, its negative, a rescaled form, and a constant."""
    judged = row(models({measure: function}), measure, over)
    assert judged.verdict == verdict
    if expected is not None:
        assert (judged.correlation, judged.low, judged.high) == pytest.approx((expected,) * 3, nan_ok=True)
    tasks = 0 if verdict == "undefined" else 5
    assert (judged.num_tasks, judged.num_models, judged.num_undefined) == (tasks, 3 * 5 * 5 * 2, 5 - tasks)
    assert judged.num_points == {ALL: 15, BY_RULES: 5}[over]


@pytest.mark.slow
def test_routers_and_tasks_are_resampled():
    """Compares with SciPy's correlations of means over seeds, in a plain loop over samples."""
    frame = models({"routing_entropy": lambda a, R, rng: a + rng.normal(0, 0.3, len(a))})
    means = frame.groupby(["data_seed", "variant", "num_rules"])[["alignment", "routing_entropy"]].mean()
    rng, tasks = np.random.default_rng(1), [means.loc[task] for task in range(5)]

    def among(rows):
        return stats.spearmanr(*rows.to_numpy().T).statistic

    def at_each(rows):
        return np.nanmean([among(one) for _, one in rows.groupby("num_rules")])

    for over, correlation in ((ALL, among), (BY_RULES, at_each)):
        judged, drawn = row(frame, "routing_entropy", over), []
        assert judged.correlation == pytest.approx(np.mean([correlation(task) for task in tasks]))
        for _ in range(80):
            chosen = rng.choice(ROUTERS, 5)
            if len(set(chosen)) >= 3:
                sample = [pd.concat([tasks[t].loc[[r]] for r in chosen]) for t in rng.integers(0, 5, 5)]
                drawn.append(np.mean([correlation(task) for task in sample]))
        assert [judged.low, judged.high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.12)


def test_few_routers_have_no_interval():
    judged = row(models({"collapse_avg": same}, variants=ROUTERS[:4]), "collapse_avg")
    assert (judged.correlation, judged.verdict, judged.num_routers) == (1, "not enough runs", 4)
    assert np.isnan([judged.low, judged.high]).all()


def test_what_r_does_to_both_is_told_from_what_routers_do():
    """The measure equals R."""
    frame = models({
        "collapse_worst": lambda a, R, rng: R + rng.uniform(size=len(R)),
        "alignment": lambda a, R, rng: R / 10 + rng.uniform(0, 0.01, len(R)),
    })  # fmt: skip
    assert row(frame, "collapse_worst").verdict == "tracks"
    assert abs(row(frame, "collapse_worst", BY_RULES).correlation) < 0.5


def test_few_tasks_models_and_those_that_diverged():
    frame = models({"collapse_avg": same})
    assert row(frame[frame["data_seed"] < 2], "collapse_avg").verdict == "not enough runs"
    judged = row(models({"collapse_avg": same}, rules=(4,), variants=ROUTERS[:2]), "collapse_avg")
    assert (judged.verdict, judged.num_points, judged.num_undefined) == ("undefined", 2, 5)
    frame.loc[(frame["variant"] == "switch") & (frame["seed"] == 1), ["alignment", "collapse_avg"]] = np.nan
    judged = row(frame, "collapse_avg")
    assert (judged.num_missing, judged.num_models, judged.num_points) == (15, 135, 15)
    assert list(judge_measures(frame.iloc[:0])) == COLUMNS
    assert print_judged(judge_measures(frame.iloc[:0])).startswith("The results have no activation matrices")


def test_a_measure_that_no_model_has_is_undefined(study):
    """The others are judged, and drawn without a note that nothing was ranked."""
    frame = models({"collapse_avg": same, "expert_overlap": lambda a, R, rng: np.nan * a})
    judged = row(frame, "expert_overlap", BY_RULES)
    assert (judged.verdict, judged.num_models, judged.num_missing) == ("undefined", 0, 150)
    assert (judged.num_tasks, judged.num_undefined, judged.num_points) == (0, 5, 0)
    assert row(frame, "collapse_avg").verdict == "tracks"
    part = study.part(variant=study.variants)
    part.__dict__["judged_measures"] = judge_measures(frame)
    (picture,) = part.figure("measures_judged")
    assert list(picture.table["measure"].unique()) == ["collapse_avg"]
    assert "nothing to rank" not in picture.note


def test_over_kinds_and_places_in_words():
    first, second = models({"collapse_avg": same}), models({"collapse_avg": lambda a, R, rng: -a}, arch="rnn")
    table = judge_measures(pd.concat([first, second]))
    assert list(table["kind"].unique()) == ["MLP regression", "RNN regression"]
    text = print_judged(table)
    line = (
        r"collapse_avg +\+1.00 \[\+1.00, \+1.00\] +-1.00 \[.*\] +tracks in 1 of 2 task types; misleads in 1"
    )
    assert len(re.findall(line, text)) == text.count("Among ") == 2
    assert "routed layer: 300." in text
    places = judge_measures(pd.concat([first.assign(place="encoder"), first.assign(place="root")]))
    assert list(places["kind"].unique()) == ["MLP regression, encoder", "MLP regression, root"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    world = World(diverged=(("top_k", 0, 0),))
    variants = ["monolithic", "modular", "modular_op", "gt_modular", "top_k", ("modular", {"modules": 3})]
    sizes = {"rules": (2, 8), "num_evaluations": 4}
    return study_of(tmp_path_factory.mktemp("judged"), variants=variants, world=world, **sizes)


def test_only_what_learned_to_use_several_modules_counts(study):
    measured = learned_measures(study)
    assert set(measured["variant"]) == {"modular", "modular_op", "top_k", "modular (modules=3)"}
    assert len(measured) == 4 * 2 * 3 * 2
    assert {m.name for m in metrics.activation_measures(metrics.GROUPS)} <= set(measured)


def test_a_model_that_was_told_to_start_cold_counts(tmp_path):
    (cell,) = cells_of(settings=["regression"], rules=[4], variants=["modular"])
    for trainer in ({"start": "none"}, {"start_steps": 5}, {"start": "oracle"}):
        write_cell(tmp_path, replace(cell, trainer=trainer), num_evaluations=4)
    found = set(learned_measures(Study.read(tmp_path))["variant"])
    assert found == {"modular (trainer.start=none)", "modular (trainer.start_steps=5)"}


@pytest.mark.parametrize("checkpoint", ["tail", "pooled"])
def test_measures_are_means_over_the_evaluations_of_the_checkpoint(study, checkpoint):
    part = Study.read([str(cell.path) for cell in study.cells], checkpoint)
    model = learned_measures(part).query("variant == 'modular' and num_rules == 8").iloc[3]
    (cell,) = part.activations(variant="modular", num_rules=8)
    member = cell.index(model["data_seed"], model["seed"])
    matrices = cell.history[-2:] if checkpoint == "tail" else [cell.last, cell.best]
    expected = [metrics.effective_rank(matrix[member]) for matrix in matrices]
    assert model["effective_rank"] == pytest.approx(np.mean(expected))


def test_the_figure_shows_the_table_the_best_above_and_says_what_cannot_be_ranked(study):
    (picture,) = study.figure("measures_judged")
    axes = picture.figure.axes[0]
    best = study.judged_measures.query(f"over == '{ALL}'").set_index("measure")["correlation"]
    best = best.sort_values(ascending=False, kind="stable")
    assert [label.get_text() for label in axes.get_yticklabels()] == list(best.index)
    np.testing.assert_allclose(sorted(axes.containers[0].lines[0].get_xdata()), sorted(best))
    assert "48 models of 3 tasks" in picture.note
    (picture,) = study.part(variant=["modular", "modular_op"]).figure("measures_judged")
    assert picture.note.endswith(f"Incomplete: nothing to rank among {BY_RULES} in MLP regression.")
    with pytest.raises(NothingToDraw, match="no activation matrices of a learned router"):
        Study(study.results.drop(columns="router")).figure("measures_judged")


CLAIMS = ["monolithic_comparable_at_few_rules", "no_advantage_at_few_rules", "modular_op_beats_modular"]


def test_models_that_have_not_learned_are_left_out_of_verdicts_and_rankings():
    at_tail = results_of(
        World(noise=0.01), rules=(2, 8, 32), data_seeds=range(6), seeds=[0], checkpoints=["tail"]
    )
    ends = at_tail[(at_tail["measure"] == "loss") & (at_tail["condition"] == "iid")]
    lowest = ends.groupby(["num_rules", "data_seed"])["value"].transform("min")
    first = lowest.where(ends["num_rules"] != 32, lowest / 0.9)  # the best of R = 32 has 90% left
    first = first.where(ends["num_rules"] == 32, lowest / 0.7)
    history = pd.concat([ends.assign(step=0, value=first), ends.assign(step=10)], ignore_index=True)
    study, rest = Study(at_tail, history), at_tail[at_tail["num_rules"] != 32]
    expected = Study(rest, history[history["num_rules"] != 32])
    pd.testing.assert_frame_equal(study.claims(CLAIMS), expected.claims(CLAIMS))
    assert not study.claims(CLAIMS).equals(Study(at_tail, history.iloc[:0]).claims(CLAIMS)), "unknown"
    [line] = learning_words(study)
    assert "R = 32: the best variant has 90% of the best constant answer's loss or error. Its models" in line
    [ranking] = study.figure("ranking")
    assert ranking.table["num_votes"].tolist() == expected.figure("ranking")[0].table["num_votes"].tolist()
    unlearned = Study(at_tail[at_tail["num_rules"] == 32], history)
    assert set(unlearned.claims(CLAIMS)["why"]) == {LACKING}
    with pytest.raises(NothingToDraw, match="no variant has learned"):
        unlearned.figure("ranking")


@pytest.mark.parametrize(
    ("values", "constant", "expected"),
    [
        ([0.75, np.nan], 1, True),
        ([0.76], 1, False),
        ([37.5, 90, 1], 50, True),
        ([np.nan], 1, False),
        ([9], np.nan, True),
    ],
)
def test_at_most_three_quarters_of_the_constant_answer_are_left(values, constant, expected):
    assert has_learned(values, constant) is expected


def test_a_constant_answer_errs_as_often_as_other_classes_occur():
    def error(*task, **options):
        return constant_error(Task(*task, **options))

    assert error("mlp", setting="classification", num_rules=8) == 50
    assert error("corruptions", dataset="digits") == 90
    labels = np.arange(47).repeat(10)
    assert error("corruptions", dataset="emnist") == pytest.approx(100 * np.mean(labels != 0))
    for option in ({"shift": 3.0}, {"form": "network"}):
        assert np.isnan(error("mlp", setting="classification", num_rules=2, **option)), "unequal classes"


def test_errors_that_label_noise_makes_are_not_left_to_learn():
    rows = results_of(rules=[8], settings=["classification"])
    errors = rows["measure"] == "error"
    noisy = rows.assign(task_options="noise=0.4", value=rows["value"].mask(errors, 40.1))
    [share] = Study(noisy).learned["share"]
    assert share == pytest.approx(0.99)
