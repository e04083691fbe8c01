"""Claims in simulated worlds in which each is true, false, or undecidable."""

import numpy as np
import pandas as pd
import pytest
from simulated_results import CHECKPOINTS, World, simulate, study_of

from modtf.analysis import Study
from modtf.analysis.claims import (
    CLAIMS,
    CONTRADICTED,
    DEPENDS,
    NOT_ENOUGH,
    SUPPORTED,
    UNDECIDED,
    decisive,
    in_words,
    print_claims,
    share_lost,
)
from modtf.analysis.claims.evidence import rank_agreement
from modtf.analysis.claims.numbers import lost
from modtf.analysis.figures import FIGURES
from modtf.analysis.trained import CHOICES
from modtf.metrics import MEASURES, rule_distributions
from modtf.results import VARIANTS, load_results

PUBLISHED = [name for name, claim in CLAIMS.items() if claim.variants == VARIANTS]
FEW = ["monolithic_comparable_at_few_rules", "no_advantage_at_few_rules"]


def study(out, **changes):
    """Judge claims at one checkpoint, which takes a quarter of the time, unless all are requested."""
    sizes = {"data_seeds": range(6), "seeds": range(3), "checkpoints": ["tail"]}
    return study_of(out, **(sizes | changes))


def verdicts(found, names=None):
    judged = found.claims(names)
    return judged.drop_duplicates("claim").set_index("claim")["verdict"].to_dict()


@pytest.fixture(scope="module")
def as_published(tmp_path_factory):
    """A world in which the paper is right by a clear margin."""
    world = World(
        floor={
            "monolithic": lambda x: 0.192 + 0.10 * x,
            "modular": lambda x: 0.19 + 0.09 * x,
            "modular_op": lambda x: 0.19 + 0.05 * x,
            "gt_modular": lambda x: 0.189 + 0.005 * x,
        },
        collapse={
            "modular": lambda x: 0.13 + 0.09 * x,
            "modular_op": lambda x: 0.01 + 0.095 * x,
            "gt_modular": lambda x: 0.0,
        },
        speed={"monolithic": 7, "modular": 7, "modular_op": 9, "gt_modular": 14},
        noise=0.01,
    )
    sizes = {"num_evaluations": 6, "data_seeds": range(12), "rules": (2, 8, 16, 32)}
    return study(tmp_path_factory.mktemp("published"), world=world, checkpoints=CHECKPOINTS, **sizes)


def test_claims_that_hold_are_supported_and_say_what_decided_them(as_published):
    judged = as_published.claims()
    assert set(judged["claim"]) == set(PUBLISHED)
    assert set(judged["verdict"]) == {SUPPORTED}, judged[judged["verdict"] != SUPPORTED]
    lines, text = decisive(judged), print_claims(judged)
    assert lines["claim"].tolist() == list(PUBLISHED)
    pieces = judged[judged["evidence_verdict"] != "beside"].groupby("claim", sort=False)
    assert (lines["num_pieces"] == pieces.size().to_numpy()).all()
    assert (lines["q"] < 0.025).all()
    assert (lines[[f"verdict_{name}" for name in CHOICES]] == SUPPORTED).all(axis=None)
    for claim in (CLAIMS[name] for name in PUBLISHED):
        assert claim.text in text
        assert f"[{claim.figure}]" in text
        assert claim.figure in FIGURES
    assert "95% interval" in text


def test_few_rules_are_comparable_and_many_say_nothing_of_few(tmp_path):
    same = World(floor={name: (lambda x: 0.2) for name in VARIANTS}, noise=0.01)
    assert set(verdicts(study(tmp_path / "few", world=same, rules=(2, 4)), FEW).values()) == {SUPPORTED}
    assert set(verdicts(study(tmp_path / "many", rules=(8, 32), seeds=[0]), FEW).values()) == {NOT_ENOUGH}


def test_claims_that_fail_are_contradicted(tmp_path):
    """Losses and collapse in the opposite order of the variants, and falling with the number of rules."""
    floor = {
        "gt_modular": lambda x: 0.50 + 0.15 * x,
        "modular_op": lambda x: 0.45 + 0.10 * x,
        "modular": lambda x: 0.40 + 0.05 * x,
        "monolithic": lambda x: 0.20,
    }
    collapse = {"modular": lambda x: 0.0, "modular_op": lambda x: 0.9 - 0.2 * x, "gt_modular": lambda x: 0.9}
    speed = {"modular": 20, "modular_op": 3, "gt_modular": 2}
    world = World(floor=floor, collapse=collapse, speed=speed, noise=0.02)
    found = verdicts(study(tmp_path, world=world, num_evaluations=4))
    assert {name for name, verdict in found.items() if verdict == CONTRADICTED} == set(PUBLISHED) - {
        "monolithic_comparable_at_few_rules",  # it is better
        "out_follows_in",  # doubling the inputs does not change the order here
        "random_specialises_worst",  # modular is perfect
    }
    assert found["monolithic_comparable_at_few_rules"] == found["out_follows_in"] == SUPPORTED


def test_a_verdict_differs_between_checkpoints_where_the_shift_is_sure(tmp_path):
    """At `best`, `modular_op` is worse by as much as it is better at the other checkpoints."""
    simulate(
        tmp_path, settings=["regression"], num_evaluations=1, data_seeds=range(6), world=World(noise=0.01)
    )
    frame = load_results(tmp_path)
    worse = frame["checkpoint"].eq("best") & frame["variant"].eq("modular_op") & frame["measure"].eq("loss")
    frame["value"] = frame["value"].where(~worse, 9.0)
    judged = Study(frame).claims(["modular_op_beats_modular", "out_follows_in"]).drop_duplicates("claim")
    (beats, follows) = judged.itertuples()
    assert (beats.verdict, follows.verdict) == (DEPENDS, SUPPORTED)
    found = [getattr(beats, f"verdict_{name}") for name in CHOICES]
    assert found == [SUPPORTED, SUPPORTED, CONTRADICTED, CONTRADICTED]
    assert f"{DEPENDS} in MLP regression" in print_claims(judged)
    best = Study(frame, checkpoint="best").claims(["modular_op_beats_modular"])
    assert set(best["verdict"]) == {DEPENDS}
    assert (best["value"] < 0).all()
    assert (best["p_shift"] < 0.01).all()
    late = frame[
        frame["checkpoint"].ne("tail") | frame["variant"].ne("modular_op")
    ]  # measured at the end alone
    judged = Study(late[late["checkpoint"] != "best"], checkpoint="last").claims(["modular_op_beats_modular"])
    assert set(judged["verdict_tail"]) == {NOT_ENOUGH}
    assert set(judged["verdict"]) == {SUPPORTED}


def test_a_number_that_only_crosses_the_border_does_not_differ_between_checkpoints(tmp_path):
    """One of four tasks is worse at `best`: the interval then holds 0, and no shift is sure."""
    simulate(tmp_path, settings=["regression"], rules=[8], data_seeds=range(4), num_evaluations=1)
    frame = load_results(tmp_path)
    ours, theirs = (
        frame["variant"].eq(name) & frame["measure"].eq("loss") for name in ("modular_op", "modular")
    )
    frame["value"] = frame["value"].mask(theirs, 1.0).mask(ours, 0.9 - 0.01 * frame["data_seed"])
    one = ours & frame["checkpoint"].eq("best") & frame["data_seed"].eq(0)
    frame["value"] = frame["value"].mask(one, 1.3)
    (beats,) = Study(frame).claims(["modular_op_beats_modular"]).drop_duplicates("claim").itertuples()
    assert (beats.verdict, beats.verdict_best) == (SUPPORTED, UNDECIDED)
    assert beats.p_shift > 0.3


def test_a_difference_is_a_share_of_what_can_be_lost():
    worst = {name: lost(MEASURES[name], 8) for name in ("alignment", "inverse_mutual_information")}
    assert worst == pytest.approx({"alignment": 7 / 8, "inverse_mutual_information": 1.0})
    assert lost(MEASURES["collapse_avg"], 8) == lost(MEASURES["collapse_worst"], 2) == pytest.approx(1.0)
    draws = np.sort(rule_distributions(4), axis=1)[:, ::-1]
    one = np.abs(draws - np.eye(4)[0]).sum(axis=1).mean()  # all tokens at one module
    assert lost(MEASURES["adaptation"], 4) == pytest.approx(one)
    rules = pd.Series([2, 8])
    shares = share_lost(MEASURES["alignment"], pd.Series([0.25, 0.25]), rules)
    assert shares.tolist() == pytest.approx([0.5, 2 / 7])


def test_noise_alone_decides_nothing(tmp_path):
    same = World(floor={name: (lambda x: 0.3) for name in VARIANTS}, noise=0.3)
    judged = study(tmp_path, world=same).claims(["modular_op_beats_modular", FEW[1], "gt_modular_wins"])
    assert set(judged["verdict"]) <= {UNDECIDED, CONTRADICTED}
    beats = judged[judged["claim"] == "modular_op_beats_modular"]
    assert set(beats["verdict"]) == {UNDECIDED}
    assert beats["why"].str.contains(r"holds the border; (?:about \d+|more than 1000) fresh tasks").all()
    undecided = judged["evidence_verdict"] == UNDECIDED
    assert (judged["num_tasks_needed"].isna() == ~undecided).all()
    for row in judged[undecided].itertuples():
        needed = row.num_tasks_needed
        assert (f"about {needed:.0f} fresh tasks" if np.isfinite(needed) else "more than 1000") in row.why


def test_too_few_tasks_say_so_whatever_the_seeds_and_missing_variants_and_histories_do_not_crash(tmp_path):
    judged = study(tmp_path / "two", rules=[4, 8], data_seeds=range(2), seeds=range(4)).claims()
    assert set(judged["verdict"]) == {NOT_ENOUGH}
    assert judged["num_tasks"].max() == 2
    assert (judged["why"] == "at least 3 tasks are needed").any()
    found = study(tmp_path / "one", variants=["modular"], seeds=[0], rules=[2])
    assert verdicts(found)["gt_modular_wins"] == NOT_ENOUGH


def test_kinds_are_judged_apart(tmp_path):
    """A claim that holds for one architecture must not carry the other."""
    grid = {"rules": [8], "seeds": [0, 1], "data_seeds": range(5)}
    good = World(noise=0.01)
    bad = World(floor={**good.floor, "modular_op": lambda x: 0.5}, noise=0.01)
    study(tmp_path, world=good, **grid)
    judged = study(tmp_path, world=bad, kinds=[("mha", {"search": "v2"})], **grid).claims(
        ["modular_op_beats_modular"]
    )
    found = judged.drop_duplicates("kind").set_index("kind")["verdict"].to_dict()
    assert found == {"MLP regression": SUPPORTED, "MHA v2 regression": CONTRADICTED}
    (words,) = in_words(judged)["words"]
    assert words == "supported in 1 of 2 kinds; contradicted in MHA v2 regression"


def test_models_that_diverged_are_counted(tmp_path):
    world = World(diverged=(("modular", 0, 1), ("modular", 2, 0)), noise=0.01)
    found = study(tmp_path, rules=[8], world=world)
    judged = found.claims(["modular_op_beats_modular"])
    (row,) = judged[judged["evidence"].str.contains("in distribution")].itertuples()
    assert (row.num_models, row.num_missing, row.num_tasks) == (16, 2, 6)
    assert "2 values lost to models that diverged" in print_claims(judged)
    assert len(found.diverged) == 2


def test_variants_of_users_do_not_count_and_contradiction_is_corrected_for_the_looks(tmp_path):
    few = {"rules": [4, 8], "data_seeds": range(4), "seeds": [0]}
    judged = study(tmp_path / "a", **few).claims()
    wide = study(tmp_path / "b", variants=[*VARIANTS, ("modular", {"modules": 16})], **few)
    pd.testing.assert_frame_equal(judged, wide.claims())
    for _, claim in judged[judged["evidence_verdict"] != "beside"].groupby("claim"):
        p, corrected = claim["p_against"], claim["p_against_corrected"]
        assert (corrected.dropna() >= p.dropna()).all()
        if p.notna().any():
            assert corrected[p.idxmin()] == pytest.approx(min(1.0, p.notna().sum() * p.min()))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1, 2, 3], [2, 4, 6], 1),
        ([1, 2, 3], [3, 2, 1], -1),
        ([1, 1, 2], [1, 5, 3], 0),  # ties do not count
        ([1, 2, 3], [1, np.inf, np.inf], 1),
        ([1, 1], [1, 2], np.nan),
    ],
)
def test_rank_agreement(first, second, expected):
    found = rank_agreement(np.array(first, float), np.array(second, float))
    assert found == pytest.approx(expected, nan_ok=True)
