"""Claims in simulated worlds where each is true, false, or cannot be told."""

import numpy as np
import pandas as pd
import pytest
from simulated_results import World, simulate

from modtf.analysis import Study
from modtf.analysis.claims import (
    CLAIMS,
    CONTRADICTED,
    NOT_ENOUGH,
    SUPPORTED,
    UNDECIDED,
    decisive,
    in_words,
    print_claims,
    rank_agreement,
)
from modtf.experiments.modarch.claims.activation import steps_to_threshold

VARIANTS = ("monolithic", "modular", "modular_op", "gt_modular")


def study_of(out, **changes):
    grid = {"settings": ["regression"], "rules": (2, 8, 32), "data_seeds": range(6), "seeds": range(3)}
    simulate(out, **(grid | {"num_evaluations": 1} | changes))
    return Study.read(out)


def verdicts(study, names=None):
    judged = study.claims(names)
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
    out = tmp_path_factory.mktemp("published")
    return study_of(out, num_evaluations=6, world=world, data_seeds=range(12), rules=(2, 8, 16, 32))


def test_claims_that_hold_are_supported(as_published):
    found = verdicts(as_published)
    assert set(found) == set(CLAIMS)
    assert set(found.values()) == {SUPPORTED}, {n: v for n, v in found.items() if v != SUPPORTED}


def test_few_rules_are_comparable(tmp_path):
    same = {name: (lambda x: 0.2) for name in VARIANTS}
    study = study_of(tmp_path, world=World(floor=same, noise=0.01), rules=(2, 4))
    names = ["monolithic_comparable_at_few_rules", "no_advantage_at_few_rules"]
    assert set(verdicts(study, names).values()) == {SUPPORTED}


def test_many_rules_say_nothing_of_few(tmp_path):
    study = study_of(tmp_path, rules=(8, 32), seeds=[0])
    names = ["monolithic_comparable_at_few_rules", "no_advantage_at_few_rules"]
    assert set(verdicts(study, names).values()) == {NOT_ENOUGH}


@pytest.fixture(scope="module")
def upside_down(tmp_path_factory):
    """Losses and collapse in the opposite order of the variants, and falling with the number of rules."""
    floor = {
        "gt_modular": lambda x: 0.50 + 0.15 * x,
        "modular_op": lambda x: 0.45 + 0.10 * x,
        "modular": lambda x: 0.40 + 0.05 * x,
        "monolithic": lambda x: 0.20,
    }
    collapse = {
        "modular": lambda x: 0.0,
        "modular_op": lambda x: 0.9 - 0.2 * x,
        "gt_modular": lambda x: 0.9,
    }
    speed = {"modular": 20, "modular_op": 3, "gt_modular": 2}
    world = World(floor=floor, collapse=collapse, speed=speed, noise=0.02)
    return study_of(tmp_path_factory.mktemp("down"), world=world, num_evaluations=4)


def test_claims_that_fail_are_contradicted(upside_down):
    found = verdicts(upside_down)
    failed = {name for name, verdict in found.items() if verdict == CONTRADICTED}
    assert failed == set(CLAIMS) - {
        "monolithic_comparable_at_few_rules",  # it is better
        "out_follows_in",  # doubling the inputs does not change the order here
        "random_specialises_worst",  # modular is perfect
        "specialised_perform_better",  # modular has the best of both
        "specialised_train_faster",
    }
    assert found["monolithic_comparable_at_few_rules"] == found["out_follows_in"] == SUPPORTED


def test_activation_close_to_random_does_not_count_as_specialised(tmp_path):
    """Inverse mutual information is below that of random by any noise: only a margin can fail."""
    study = study_of(tmp_path, world=World(blur=1.0), rules=[16], num_evaluations=1)
    judged = study.claims(["random_specialises_worst"]).set_index("evidence")
    row = judged.loc["inverse_mutual_information against modular"]
    assert row["low"] > 0
    assert row["evidence_verdict"] == CONTRADICTED


def test_specialised_models_that_are_worse_contradict(tmp_path):
    floor = {"modular": lambda x: 0.2, "modular_op": lambda x: 0.3, "gt_modular": lambda x: 0.4}
    speed = {"modular": 20, "modular_op": 5, "gt_modular": 2}
    world = World(floor=floor, speed=speed, noise=0.02)
    study = study_of(tmp_path, world=world, variants=VARIANTS[1:], num_evaluations=6)
    names = ["specialised_perform_better", "specialised_train_faster"]
    assert set(verdicts(study, names).values()) == {CONTRADICTED}


def test_noise_alone_decides_nothing(tmp_path):
    same = {name: (lambda x: 0.3) for name in VARIANTS}
    study = study_of(tmp_path, world=World(floor=same, noise=0.3))
    judged = study.claims(["modular_op_beats_modular", "no_advantage_at_few_rules", "gt_modular_wins"])
    assert set(judged["verdict"]) <= {UNDECIDED, CONTRADICTED}
    beats = judged[judged["claim"] == "modular_op_beats_modular"]
    assert set(beats["verdict"]) == {UNDECIDED}
    assert beats["why"].str.contains(r"holds the border; (?:about \d+|more than 1000) tasks").all()
    for row in judged.itertuples():
        needed = row.num_tasks_needed
        if row.evidence_verdict == UNDECIDED:
            assert (f"about {needed:.0f} tasks" if np.isfinite(needed) else "more than 1000") in row.why
            assert needed >= 3
        else:
            assert np.isnan(needed)


@pytest.mark.parametrize("tasks", [1, 2])
def test_too_few_tasks_say_so_whatever_the_seeds(tasks, tmp_path):
    study = study_of(tmp_path, rules=[4, 8], data_seeds=range(tasks), seeds=range(4))
    judged = study.claims()
    assert set(judged["verdict"]) == {NOT_ENOUGH}
    assert judged["num_tasks"].max() == tasks
    assert (judged["why"] == "at least 3 tasks are needed").any()


def test_missing_variants_and_histories_do_not_crash(tmp_path):
    study = study_of(tmp_path, variants=["modular"], seeds=[0])
    found = verdicts(
        Study(
            pd.read_csv(next(tmp_path.glob("*/results.csv")), keep_default_na=False).assign(
                protocol="a", folder="b"
            )
        )
    )
    assert found["specialised_train_faster"] == NOT_ENOUGH
    assert verdicts(study)["gt_modular_wins"] == NOT_ENOUGH


def test_kinds_are_judged_apart(tmp_path):
    """What holds for one architecture must not carry the other."""
    grid = {"rules": [8], "seeds": [0, 1], "data_seeds": range(5), "num_evaluations": 1}
    good = World(noise=0.01)
    bad = World(floor={**good.floor, "modular_op": lambda x: 0.5}, noise=0.01)
    study = study_of(tmp_path, world=good, **grid)
    study = study_of(tmp_path, world=bad, kinds=[("mha", {"search": "v2"})], **grid)
    judged = study.claims(["modular_op_beats_modular"])
    found = judged.drop_duplicates("kind").set_index("kind")["verdict"].to_dict()
    assert found == {"MLP regression": SUPPORTED, "MHA v2 regression": CONTRADICTED}
    (words,) = in_words(judged)["words"]
    assert words == "supported in 1 of 2 kinds; contradicted in MHA v2 regression"


def test_architectures_are_no_more_data(tmp_path):
    """Tasks of one data seed are one task in a kind, whatever the numbers of rules and widths."""
    study = study_of(tmp_path, rules=(2, 4, 8), widths=(32, 64), data_seeds=range(3), seeds=[0])
    assert set(study.claims(["modular_op_beats_modular", "gt_modular_wins"])["num_tasks"]) == {3}


def test_models_that_diverged_are_counted(tmp_path):
    world = World(diverged=(("modular", 0, 1), ("modular", 2, 0)), noise=0.01)
    study = study_of(tmp_path, rules=[8], world=world)
    (row,) = (
        study.claims(["modular_op_beats_modular"])
        .query("evidence.str.contains('in distribution')")
        .itertuples()
    )
    assert (row.num_models, row.num_missing, row.num_tasks) == (16, 2, 6)
    assert "2 values lost to models that diverged" in print_claims(study.claims(["modular_op_beats_modular"]))
    assert len(study.diverged) == 2


def test_variants_of_users_do_not_count(tmp_path):
    plain = study_of(tmp_path / "a", rules=[8], seeds=[0], num_evaluations=1)
    more = [*VARIANTS, ("modular", {"modules": 16})]
    wide = study_of(tmp_path / "b", rules=[8], seeds=[0], variants=more, num_evaluations=1)
    pd.testing.assert_frame_equal(plain.claims(), wide.claims())


def test_contradiction_is_corrected_for_the_looks(tmp_path):
    study = study_of(tmp_path, rules=[4, 8], data_seeds=range(4), seeds=[0], num_evaluations=1)
    judged = study.claims()
    for _, claim in judged.groupby("claim"):
        p, corrected = claim["p_against"], claim["p_against_corrected"]
        looks = p.notna().sum()
        assert (corrected.dropna() >= p.dropna()).all()
        if looks:
            assert corrected[p.idxmin()] == pytest.approx(min(1.0, looks * p.min()))


def test_steps_to_a_common_threshold():
    shared = {"arch": "mlp", "setting": "regression", "task_options": "", "num_rules": 2, "width": 32}
    curves = {"modular": [9.0, 5, 3, 2], "gt_modular": [9.0, 2, 1, 1], "modular_op": [9.0, 8, np.nan, 4]}
    rows = [
        {**shared, "variant": variant, "data_seed": 0, "seed": 0, "step": step, "measure": "loss",
         "condition": "iid", "value": value}
        for variant, curve in curves.items()
        for step, value in zip((0, 10, 20, 30), curve, strict=True)
    ]  # fmt: skip
    found = steps_to_threshold(pd.DataFrame(rows)).set_index("variant")["steps"]
    assert found.to_dict() == {"modular": 20, "gt_modular": 10, "modular_op": 30}  # all reach 4


def test_a_model_that_never_gets_there_is_the_slowest():
    shared = {"arch": "mlp", "setting": "regression", "task_options": "", "num_rules": 2, "width": 32}
    shared |= {"data_seed": 0, "measure": "loss", "condition": "iid"}
    rows = [
        {**shared, "variant": variant, "seed": seed, "step": step, "value": value}
        for variant, seed, curve in [
            ("a", 0, [5.0, 1]),
            ("a", 1, [5.0, 1]),
            ("a", 2, [5.0, 4]),
            ("b", 0, [1.0, 1]),
        ]
        for step, value in enumerate(curve)
    ]
    found = steps_to_threshold(pd.DataFrame(rows)).set_index(["variant", "seed"])["steps"]
    assert found.to_dict() == {("a", 0): 1, ("a", 1): 1, ("a", 2): np.inf, ("b", 0): 0}


def test_an_interval_of_rank_agreement_ends_where_agreement_does(tmp_path):
    study = study_of(tmp_path, data_seeds=range(3), rules=[8], world=World(noise=0.3))
    judged = study.claims(["out_follows_in", "specialised_perform_better"])
    assert (judged["low"] < judged["high"]).any()
    assert judged["high"].max() == 1  # Student's t would reach further
    assert judged["low"].min() >= -1


def test_rank_agreement():
    assert rank_agreement(np.array([1.0, 2, 3]), np.array([2.0, 4, 6])) == 1.0
    assert rank_agreement(np.array([1.0, 2, 3]), np.array([3.0, 2, 1])) == -1.0
    assert rank_agreement(np.array([1.0, 1, 2]), np.array([1.0, 5, 3])) == 0.0  # ties do not count
    assert rank_agreement(np.array([1.0, 2, 3]), np.array([1.0, np.inf, np.inf])) == 1.0
    assert np.isnan(rank_agreement(np.array([1.0, 1]), np.array([1.0, 2])))


def test_every_claim_says_what_decided_it(as_published):
    judged = as_published.claims()
    lines = decisive(judged)
    assert lines["claim"].tolist() == list(CLAIMS)
    assert (lines["num_pieces"] == judged.groupby("claim", sort=False).size().to_numpy()).all()
    text = print_claims(judged)
    for name in CLAIMS:
        assert CLAIMS[name].text in text
        assert f"[{CLAIMS[name].figure}]" in text
    assert "95% interval" in text


def test_claims_point_at_registered_figures():
    from modtf.analysis.figures import FIGURES

    assert {CLAIMS[name].figure for name in CLAIMS} <= set(FIGURES)
