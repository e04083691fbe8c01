"""Claims about corruptions on simulated results."""

import numpy as np
import pandas as pd
import pytest

from modtf.analysis.study import Study
from modtf.experiments.corruptions.accuracy import PARTS, differences
from modtf.experiments.corruptions.figures import learned
from modtf.results.schema import COLUMNS

FIXED = "trainer.sites=[1; 1; 1; 1; 1; 1]"
START = {("erm", ""): 60.0, ("contrastive", ""): 61.0, ("modular", ""): 70.0, ("modular", FIXED): 68.0}
SPREAD = {("modular", ""): 4.0}
KIND = ("corruptions", "categorical", "dataset=digits")


def rows(severity, gain, models):
    """Accuracy falls by 5 points with every corruption; models of a spread lie on both sides of it."""
    options = "dataset=digits" + (",severity=lowest" if severity == "lowest" else "")
    for variant, trainer in models:
        for seed in range(6):
            off = SPREAD.get((variant, trainer), 0.1) * (-1) ** seed * (1 + seed / 10)
            for condition, parts in [*PARTS.items(), ("iid", 1)]:
                accuracy = START[variant, trainer] + gain - 5 * parts + off
                yield (
                    *("corruptions", "categorical", options, 7, 1, 16, variant, trainer, seed, 0, 10, 5),
                    *("best", "error", condition, "", 100.0 - accuracy),
                )


def study(gain=3.0, lowest=(("erm", ""), ("modular", ""))):
    frame = pd.DataFrame([*rows("main", 0, START), *rows("lowest", gain, lowest)], columns=list(COLUMNS))
    return Study(frame.assign(protocol="p", folder="f"))


def verdicts(study, *names):
    judged = study.claims(names or None)
    return judged.groupby(["task_options", "claim"], sort=False)["verdict"].first()


def test_the_lowest_severity_is_held_against_the_main_one():
    name = "lowest_severity_is_easier"
    found = verdicts(study(), name)
    assert found.to_dict() == {
        ("dataset=digits", name): "not enough runs",
        ("dataset=digits,severity=lowest", name): "supported",
    }
    assert verdicts(study(gain=-3.0), name).iloc[1] == "contradicted"
    assert verdicts(study(lowest=[]), name).tolist() == ["not enough runs"]


def test_the_spread_at_three_is_that_of_sites():
    judged = study().claims(["modular_spreads_at_three"])
    main = judged[judged["task_options"] == "dataset=digits"].set_index("evidence")
    assert list(main["evidence_verdict"]) == ["supported"] * 3
    expected = np.mean([(4.0 - 0.1) * abs((-1) ** seed * (1 + seed / 10) + 0.05) for seed in range(6)])
    np.testing.assert_allclose(main["value"], expected, rtol=0.1)


def test_claims_of_the_first_experiment_are_not_judged():
    first = {"gt_modular_wins", "modular_op_beats_modular", "learned_activation_collapses"}
    assert not first & set(study().claims()["claim"])


def test_differences_are_corrected_as_one_family():
    """With 6 tasks at 6 numbers of corruptions all are sure, except one that hardly differs."""
    lines = {line.split("  ")[0]: line for line in differences(study().of_kind(*KIND)).splitlines()}
    assert lines["modular"].count("*") == lines[f"modular ({FIXED})"].count("*") == 6
    assert "+9.8 (4.2 to 15.5)*" in lines["modular"]  # 10 less 3.9 times the mean of the signed spreads
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(START, ("contrastive", ""), 60.01)
        patch.setitem(SPREAD, ("contrastive", ""), 1.0)
        unsure = differences(study().of_kind(*KIND)).splitlines()
    assert [line.count("*") for line in unsure if line.startswith("contrastive")] == [0]


def test_methods_that_did_not_learn_are_not_in_pictures_of_invariance():
    found = study()
    found.results.loc[found.results["variant"] == "erm", "value"] = 90.0
    assert set(learned(found.of_kind(*KIND))) == {"contrastive", "modular", f"modular ({FIXED})"}
