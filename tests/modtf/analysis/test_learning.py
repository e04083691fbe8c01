"""Models that hardly learned, left out of verdicts."""

import pandas as pd
import pytest
from simulated_results import World, results_of

from modtf.analysis import Study
from modtf.analysis.claims import learning_words

CLAIMS = ["monolithic_comparable_at_few_rules", "no_advantage_at_few_rules", "modular_op_beats_modular"]


def test_models_that_hardly_learned_can_be_left_out_of_the_verdicts():
    at_tail = results_of(
        World(noise=0.01), rules=(2, 8, 32), data_seeds=range(6), seeds=[0], checkpoints=["tail"]
    )
    ends = at_tail[(at_tail["measure"] == "loss") & (at_tail["condition"] == "iid")].assign(value=0.9)
    ends.loc[ends["num_rules"] == 2, "value"] = 0.4
    ends.loc[(ends["num_rules"] == 8) & (ends["variant"] == "gt_modular"), "value"] = 0.5
    history = pd.concat([ends.assign(step=0, value=1.0), ends.assign(step=10)], ignore_index=True)
    study = Study(at_tail, history)
    left_out = study.claims(CLAIMS, least_learned=0.25)
    expected = Study(at_tail[at_tail["num_rules"] != 32]).claims(CLAIMS)
    pd.testing.assert_frame_equal(left_out, expected)
    assert not left_out.equals(study.claims(CLAIMS))
    [line] = learning_words(study, 0.25)
    assert "R = 32: the best variant ended at 90%" in line
    assert "left out" in line
    assert "--least_learned=0.25" in learning_words(study, 0.0)[0]
    with pytest.raises(ValueError, match="least_learned"):
        study.claims(CLAIMS, least_learned=1.5)
