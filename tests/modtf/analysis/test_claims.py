import numpy as np
import pytest

from modtf.results import Study, load_history, load_results
from modtf.analysis.claims import CLAIMS, CONTRADICTED, SUPPORTED, UNDECIDED, Evidence, judge, judge_all
from modtf.analysis.claims.learning import rank_agreement
from modtf.analysis.claims.text import claim_lines, print_claims


def study_of(simulator, out, **changes):
    grid = {"settings": ["regression"], "rules": (2, 8, 32), "data_seeds": range(4), "seeds": range(2)}
    simulator.simulate(out, **(grid | {"num_evaluations": 3} | changes))
    frame = load_results(out)
    return Study(frame[frame["checkpoint"] == "last"], load_history(out))


def verdicts(study):
    return judge_all(study).drop_duplicates("claim").set_index("claim")["verdict"].to_dict()


@pytest.fixture(scope="module")
def as_published(simulator, tmp_path_factory):
    """A world in which the paper is right by a clear margin."""
    world = simulator.World(
        collapse={
            "modular": lambda x: 0.02 + 0.2 * x,
            "modular_op": lambda x: 0.15 * x,
            "gt_modular": lambda x: 0.0,
        },
        noise=0.02,
    )
    out = tmp_path_factory.mktemp("published")
    return study_of(simulator, out, world=world, data_seeds=range(6))


def test_claims_that_hold_are_supported(as_published):
    found = verdicts(as_published)
    assert set(found) == set(CLAIMS)
    assert CONTRADICTED not in found.values()
    held = {name for name, verdict in found.items() if verdict == SUPPORTED}
    assert held >= {
        "gt_modular_wins",
        "modular_small_margin",
        "advantage_grows",
        "no_advantage_at_few_rules",
        "modular_op_beats_modular",
        "collapse_grows",
        "random_does_not_collapse",
        "specialised_train_faster",
        "out_follows_in",
    }


@pytest.fixture(scope="module")
def upside_down(simulator, tmp_path_factory):
    """Losses and collapse in the opposite order of the variants, and falling with the number of rules."""
    floor = {
        "gt_modular": lambda x: 0.50 + 0.15 * x,
        "modular_op": lambda x: 0.45 + 0.10 * x,
        "modular": lambda x: 0.40 + 0.05 * x,
        "monolithic": lambda x: 0.20,
    }
    collapse = {"modular": lambda x: 0.0, "modular_op": lambda x: 0.9 - 0.2 * x, "gt_modular": lambda x: 0.0}
    world = simulator.World(floor=floor, collapse=collapse, noise=0.02)
    return study_of(simulator, tmp_path_factory.mktemp("down"), world=world, data_seeds=range(6))


def test_claims_that_fail_are_contradicted(upside_down):
    found = verdicts(upside_down)
    for name in (
        "gt_modular_wins",
        "modular_small_margin",
        "advantage_grows",
        "no_advantage_at_few_rules",
        "modular_op_beats_modular",
        "modular_op_collapses_less",
        "random_does_not_collapse",
    ):
        assert found[name] == CONTRADICTED, name


def test_noise_alone_decides_little(simulator, tmp_path):
    same = {name: (lambda x: 0.3) for name in ("monolithic", "modular", "modular_op", "gt_modular")}
    found = verdicts(study_of(simulator, tmp_path, world=simulator.World(floor=same, noise=0.3)))
    assert found["modular_op_beats_modular"] == UNDECIDED
    assert found["no_advantage_at_few_rules"] == UNDECIDED  # absence needs a narrow interval too


def test_too_few_runs_say_so(simulator, tmp_path):
    study = study_of(simulator, tmp_path, rules=[8], data_seeds=[0], seeds=[0])
    assert set(verdicts(study).values()) == {UNDECIDED}


def test_missing_variants_and_histories_do_not_crash(simulator, tmp_path):
    study = study_of(simulator, tmp_path, variants=["modular"])
    found = verdicts(Study(study.results, study.history.iloc[:0]))
    assert found["gt_modular_wins"] == UNDECIDED
    assert found["specialised_train_faster"] == UNDECIDED


@pytest.mark.parametrize(
    ("low", "high", "within", "verdict"),
    [
        (0.1, 0.2, None, SUPPORTED),
        (-0.2, -0.1, None, CONTRADICTED),
        (-0.1, 0.1, None, UNDECIDED),
        (0.0, 0.0, None, CONTRADICTED),
        (-0.1, 0.1, 0.2, SUPPORTED),
        (0.3, 0.4, 0.2, CONTRADICTED),
        (-0.4, -0.3, 0.2, CONTRADICTED),
        (0.1, 0.4, 0.2, UNDECIDED),
        (np.nan, np.nan, None, UNDECIDED),
    ],
)
def test_where_the_interval_lies_is_the_verdict(low, high, within, verdict):
    evidence = Evidence("it", (low + high) / 2, low, high, 5, 10, within=within)
    assert evidence.verdict == verdict


def test_fewer_than_three_tasks_never_decide():
    assert Evidence("it", 1.0, 0.9, 1.1, 2, 10).verdict == UNDECIDED


def test_a_claim_is_one_line(as_published):
    lines = claim_lines(judge_all(as_published))
    text = print_claims(lines).splitlines()
    assert len(text) == len(CLAIMS) == len(lines)
    for line, name in zip(text, CLAIMS, strict=True):
        assert CLAIMS[name].text in line
        assert f"[{CLAIMS[name].figure}]" in line
        assert "95% interval" in line


def test_all_evidence_is_kept(as_published):
    judged = judge("collapse_grows", CLAIMS["collapse_grows"], as_published)
    assert len(judged) == 4
    assert set(judged["num_tasks"]) == {6}


def test_rank_agreement():
    assert rank_agreement(np.array([1.0, 2, 3]), np.array([2.0, 4, 6])) == 1.0
    assert rank_agreement(np.array([1.0, 2, 3]), np.array([3.0, 2, 1])) == -1.0
    assert rank_agreement(np.array([1.0, 1, 2]), np.array([1.0, 5, 3])) == 0.0  # ties do not count
    assert np.isnan(rank_agreement(np.array([1.0, 1]), np.array([1.0, 2])))


def test_claims_point_at_registered_figures():
    from modtf.analysis.figures import FIGURES

    assert {CLAIMS[name].figure for name in CLAIMS} <= set(FIGURES)
