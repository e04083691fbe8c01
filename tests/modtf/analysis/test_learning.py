"""Models that have not learned are left out of verdicts, rankings and correlations."""

import numpy as np
import pandas as pd
import pytest
from simulated_results import World, results_of

from modtf.analysis import Study
from modtf.analysis.claims import has_learned, learning_words
from modtf.analysis.claims.judge import LACKING
from modtf.analysis.figures import NothingToDraw
from modtf.analysis.learned import constant_error

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
    assert constant_error("mlp", "classification", "", 8) == 50
    assert constant_error("corruptions", "categorical", "dataset=digits", 7) == 90
    labels = np.arange(47).repeat(10)
    wrong = 100 * np.mean(labels != 0)
    assert constant_error("corruptions", "categorical", "dataset=emnist", 7) == pytest.approx(wrong)
