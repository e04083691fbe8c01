"""The figure of the cost of misrouting, on simulated results."""

from itertools import product
from pathlib import Path

import misrouting
import numpy as np
import pandas as pd
import pytest
from simulated_results import results_of

from modtf import Cell, Evaluation, Protocol, Task, Training, load_results, run_cell
from modtf.analysis import Study, performance_rows
from modtf.analysis.claims import CLAIMS
from modtf.analysis.claims.evidence import mean_evidence
from modtf.analysis.claims.judge import judge_all
from modtf.analysis.figures import NothingToDraw
from modtf.experiments.modarch.fixed_routing import (
    CERTAIN,
    distance,
    family_of_matrices,
    fixed_rows,
    is_fixed,
    routing_of,
    saved,
    select,
    times,
    trends,
)
from modtf.experiments.modarch.warm_start import ChoiceLoss, _choices
from modtf.metrics import alignment
from modtf.models.routers.clamped import clamped_matrix
from modtf.tasks.population import Population

ROUTINGS = [
    {"matrix": "spread", "amount": 0.0},
    {"matrix": "spread", "amount": 0.5},
    {"matrix": "spread", "amount": 0.5, "hard": True},
    {"matrix": "block", "amount": 2},
]


@pytest.fixture(scope="module")
def study():
    variants = ["modular", "gt_modular", *(("clamped", dose) for dose in [*ROUTINGS, {"of": "modular"}])]
    return Study(results_of(rules=[8], data_seeds=range(3), variants=variants))


def test_every_dose_is_a_point_of_its_family(study):
    [picture, *_] = study.figure("misrouting")
    assert picture.name == "misrouting_mlp_regression_r8_e32"
    points = picture.table.groupby(["where", "against", "variant"], observed=True).size().unstack()
    assert points["spread, weighted"].eq(2).all()
    others = ["modular", "gt_modular", "paired run, weighted"]
    assert points[["spread, sampled", "block, weighted", *others]].eq(1).all(axis=None)
    assert len(points) == 4  # in and out of distribution, against two measures
    rows = study.results.query("kind == 'MLP regression' and variant == 'modular'")
    point = picture.table.query("variant == 'modular' and against == 'Alignment'").set_index("where")
    assert point["x"].to_numpy() == pytest.approx(rows[rows["measure"] == "alignment"]["value"].mean())
    values = performance_rows(rows).set_index(["distribution", "data_seed"])["value"]
    perfect = fixed_rows(study).query("kind == 'MLP regression' and alignment == 0")
    ratios = np.log(values / perfect.set_index(["distribution", "data_seed"])["value"])
    expected = np.exp(ratios.groupby(level=0, observed=True).mean())
    assert sorted(point["mean"]) == pytest.approx(sorted(expected))
    assert "multiples of perfect routing's" in picture.note
    assert np.isfinite(picture.table[["mean", "low", "high"]]).all(axis=None)


def test_perfect_routing_is_one_model_of_a_task():
    """Sampled from one-hot rows it is the same routing, trained again."""
    perfect = [("clamped", {"matrix": "spread", "amount": 0.0, "hard": hard}) for hard in (False, True)]
    half = ("clamped", {"matrix": "spread", "amount": 0.5})
    frames = [
        results_of(rules=[8], data_seeds=range(3), variants=variants)
        for variants in ([perfect[0], half], [*perfect, half])
    ]
    drawn = frames[1]["model_options"].astype(str).str.contains("hard=True") & (
        frames[1]["measure"] == "loss"
    )
    frames[1]["value"] = frames[1]["value"].mask(drawn, frames[1]["value"] * 4)
    tables = [Study(frame).figure("misrouting")[0].table for frame in frames]
    one, both = (table[table["variant"] == "spread, weighted"] for table in tables)
    assert both["mean"].tolist() == pytest.approx(one["mean"].tolist())
    assert both["num_models"].tolist() == one["num_models"].tolist()


@pytest.mark.parametrize("rules", [3, 6, 7, 8])
def test_the_largest_spread_is_a_block_of_all_rules(rules):
    """Also where 1 - 1 / R has no exact number of 64 bits, as it went through a table."""
    amounts = [float(f"{1 - 1 / rules:.9g}"), 0.5]
    rows = [("spread", amount, amount, rules, False, index) for index, amount in enumerate(amounts)]
    names = ["matrix", "amount", "alignment", "num_rules", "sampled", "value"]
    found = select(pd.DataFrame(rows, columns=names), ("block", rules, False))
    assert found["value"].tolist() == [0]


def test_families_of_matrices():
    assert family_of_matrices("") == "spread, weighted"
    assert family_of_matrices("matrix=collapsed,amount=4,hard=True") == "collapsed, sampled"


def test_without_given_routing_it_says_how_to_get_it(study):
    with pytest.raises(NothingToDraw, match=r"sweep --study=docs/studies/misrouting.py:misrouting "):
        [*study.part(variant=["modular", "gt_modular"]).figure("misrouting")]


#: of the log loss from perfect to wrong; a sampled module costs a tenth more, half the modules a fifth
COSTS = 2.0


@pytest.fixture(scope="module")
def priced():
    """All matrices of the study, with known prices."""
    variants = [
        ("clamped", dict(zip(("matrix", "amount", "hard"), way, strict=True))) for way in misrouting.EVERY
    ]
    results = results_of(rules=[8], data_seeds=range(5), seeds=[0], variants=variants)
    routings = [routing_of(options) for options in results["model_options"].astype(str)]
    drawn, collapsed = (
        [test(each) for each in routings] for test in (lambda d: d[2], lambda d: d[0] == "collapsed")
    )
    distances = np.array([distance(*each[:2], 8) for each in routings])
    cost = np.exp(COSTS * distances + np.log(1.1) * np.array(drawn) + np.log(1.2) * np.array(collapsed))
    is_loss = results["measure"] == "loss"
    return Study(results.assign(value=results["value"].where(~is_loss, results["value"] * cost)))


@pytest.mark.parametrize(("matrix", "amount"), misrouting.MATRICES)
def test_how_far_a_matrix_is_from_the_rules(matrix, amount):
    assert distance(matrix, amount, 8) == pytest.approx(alignment(clamped_matrix(8, matrix, amount)))


def evidence(study, name):
    return {piece.name: piece for piece in CLAIMS[name].evidence(study)}


def test_what_a_dose_costs_is_found(priced):
    table = fixed_rows(priced)
    assert table["alignment"].nunique() == 6
    assert len(table) == 20 * 5 * 2  # in and out of distribution
    for way, name in product(("weighted", "sampled"), ("spread", "block")):
        for where in ("in distribution", "out of distribution"):
            piece = evidence(priced, f"misrouting_costs_{way}")[f"{name}, {where}"]
            assert piece.supports, name
            assert piece.value == pytest.approx(COSTS, abs=0.6), name
    tenth = evidence(priced, "a_tenth_misrouted_is_cheap_weighted")
    assert tenth["perfect over a tenth, in distribution"].value == pytest.approx(0.18, abs=0.05)
    assert not any(piece.supports for piece in tenth.values())
    halves = evidence(priced, "half_the_modules_cost_weighted")
    halves |= {
        f"{name}, sampled": piece for name, piece in evidence(priced, "half_the_modules_cost_sampled").items()
    }
    assert [piece.num_tasks for piece in halves.values()] == [5] * 12
    of_eight = np.mean([piece.value for name, piece in halves.items() if "8 modules" in name])
    assert of_eight == pytest.approx(1 - 1 / 1.2, abs=0.05)
    drawn = evidence(priced, "sampled_costs_more")
    assert len(drawn) == 18
    assert np.mean([piece.value for piece in drawn.values()]) == pytest.approx(1 - 1 / 1.1, abs=0.03)


def test_a_step_is_no_slope(priced):
    """Where all matrices but perfect routing cost the same, the slope is 0: it does not count."""
    fixed = fixed_rows(priced)
    fixed["value"] = np.where(fixed["alignment"] == 0, 0.1, 0.5)
    assert trends(fixed, "spread", True)["slope"].to_numpy() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_a_slope_with_a_model_that_diverged_or_has_no_loss_is_missing(priced, value):
    rows = fixed_rows(priced).query("distribution == 'in distribution'")
    one = (rows["data_seed"] == 3) & (rows["amount"] == 0.5) & rows["sampled"]
    table = trends(rows.assign(value=rows["value"].mask(one, value)), "spread", True)
    assert np.isnan(table.set_index("data_seed")["slope"]).to_dict() == {seed: seed == 3 for seed in range(5)}
    piece = mean_evidence(table, "slope", "")
    assert (piece.num_tasks, piece.num_missing) == (4, 1)


def test_doses_that_a_kind_lacks_do_not_count_against_it(priced):
    wanted = priced.results["model_options"].astype(str).str.contains("matrix=spread", regex=False)
    spread = priced.part(variant=priced.results.loc[wanted, "variant"].astype(str).unique().tolist())
    expected = {f"spread, {where}" for where in ("in distribution", "out of distribution")}
    assert set(evidence(spread, "misrouting_costs_sampled")) == expected
    halves = evidence(spread, "half_the_modules_cost_sampled").values()
    assert len(halves) == 6
    assert not any(piece.num_tasks for piece in halves)


@pytest.mark.parametrize("hard", [False, True])
def test_one_way_of_routing_says_nothing_of_the_other(priced, hard):
    names = priced.results["model_options"].astype(str)
    wanted = [(*which,) in CERTAIN or drawn == hard for *which, drawn in map(routing_of, names)]
    part = priced.part(variant=priced.results.loc[wanted, "variant"].astype(str).unique().tolist())
    found = {}
    for name in ("a_tenth_misrouted_is_cheap", "half_the_modules_cost", "misrouting_costs"):
        for way in ("weighted", "sampled"):
            found[name, way] = sum(piece.num_tasks for piece in evidence(part, f"{name}_{way}").values())
    assert all(
        bool(number) == (way == ("sampled" if hard else "weighted")) for (_, way), number in found.items()
    )


def test_a_block_of_all_rules_is_the_largest_spread_at_their_number_only(priced):
    fixed = fixed_rows(priced)
    found = saved(fixed, ("block", 8, True), ("collapsed", 8, True))
    assert found["data_seed"].nunique() == 5
    more = fixed.assign(num_rules=16)
    assert saved(more, ("block", 8, True), ("collapsed", 8, True)).empty


@pytest.mark.parametrize(("matrix", "amount"), [*misrouting.MATRICES, ("block", 1)])
def test_matrices_that_sampling_does_not_change(matrix, amount):
    assert ((matrix, amount) in CERTAIN) == (clamped_matrix(8, matrix, amount).max(axis=1) == 1).all()


def test_claims_of_misrouting_are_judged_where_routing_was_given(study):
    names = ["misrouting_costs_weighted", "sampled_costs_more"]
    judged = judge_all(study, names)
    assert judged["claim"].unique().tolist() == names
    assert judge_all(study.part(variant=["modular", "gt_modular"]), names).empty


def test_how_many_times_as_much():
    values = np.array([0.5, 2.0, 8.0])
    rows = [pd.DataFrame({"data_seed": range(3), "seed": 0, "value": v}) for v in (3 * values, values)]
    assert times(*rows) == "3.00 (3.00 to 3.00)"
    assert times(rows[0].head(0), rows[1]) == ""


SIZES = Evaluation(
    batches=1, batch_size=32, tokens=2_000, activation_batch_size=500, draws=1, tokens_per_draw=100
)


def test_the_loss_is_the_brier_score():
    p = np.array([[0.5, 0.25, 0.25], [0.1, 0.0, 0.9]], np.float32)
    expected = (0.5**2 + 0.75**2 + 0.25**2 + 0.1**2 + 0.1**2) / 2
    assert float(ChoiceLoss()(np.array([1, 2]), p)) == pytest.approx(expected)


def test_what_is_chosen():
    population = Population.of([Task(num_rules=4), Task(num_rules=4, data_seed=1)], [0, 5])
    features, chosen = next(iter(_choices(population, 512, "oracle", 3)))
    np.testing.assert_array_equal(chosen["activation"], features["rule"])
    features, drawn = next(iter(_choices(population, 512, "random", 3)))
    together = [
        np.mean(a == b)
        for a, b in zip(features["rule"].numpy().T, drawn["activation"].numpy().T, strict=True)
    ]
    assert np.abs(np.array(together) - 1 / 4).max() < 0.08  # of independent ones
    np.testing.assert_array_equal(
        drawn["activation"], next(iter(_choices(population, 512, "random", 3)))[1]["activation"]
    )


@pytest.mark.slow
def test_a_specialised_start(tmp_path):
    protocol = Protocol(Training(steps=4, batch_size=64, evaluations=1, learning_rate=0.01), SIZES)
    for start in ("none", "oracle", "random"):
        trainer = {} if start == "none" else {"start": start, "start_steps": 100}
        cell = Cell(Task(num_rules=2), 8, "modular_op", ((0, 0), (1, 0)), protocol, trainer=trainer)
        run_cell(cell, tmp_path, verbose=False)
    rows = load_results(tmp_path).query("measure == 'alignment' and checkpoint == 'last'")
    found = rows.groupby("model_options")["value"]
    assert found.max()["trainer.start=oracle,trainer.start_steps=100"] < 0.1
    assert found.min()[""] > 0.3
    assert found.min()["trainer.start=random,trainer.start_steps=100"] > 0.3


@pytest.mark.parametrize(
    ("variant", "trainer", "message"),
    [
        ("gt_modular", {"start": "oracle"}, "start='oracle' needs a learned router"),
        ("modular", {"start": "best"}, "start='best'.*expected"),
        ("modular", {"start_steps": -1}, "start_steps=-1"),
    ],
)
def test_what_is_refused(variant, trainer, message, tmp_path):
    protocol = Protocol(Training(steps=4, batch_size=8, evaluations=1), SIZES)
    with pytest.raises(ValueError, match=message):
        run_cell(Cell(Task(), 4, variant, ((0, 0),), protocol, trainer=trainer), tmp_path, verbose=False)
    assert not list(tmp_path.iterdir())  # before anything is written


@pytest.mark.parametrize("num_rules", [2, 3, 4, 8])
@pytest.mark.parametrize("amount", [0.0, 0.1, 0.5, 0.75, 0.875, 1.0])
def test_the_distance_is_the_alignment_of_the_matrix(num_rules, amount):
    expected = alignment(clamped_matrix(num_rules, "spread", amount))
    assert distance("spread", amount, num_rules) == pytest.approx(expected)


def test_routing_of_some_steps_is_not_fixed():
    options = ["matrix=block,amount=2,hard=True", "amount=0.5,until_step=100", "of=runs/cell,hard=False"]
    rows = pd.DataFrame({"router": "clamped", "model_options": options})
    assert is_fixed(rows).tolist() == [True, False, False]
    study = Study.read(Path(misrouting.__file__).parents[1] / "study" / "timing.zip")
    names = [name for name in CLAIMS if name.startswith(("misrouting_costs", "half_the_modules_cost"))]
    table = study.claims(names)
    assert set(table["verdict"]) == {"not enough runs"}


@pytest.mark.parametrize("router", ["top_k", "bias_balanced"])
def test_a_start_needs_a_router_that_learns(router, tmp_path):
    cell = Cell(
        Task(), 4, router, ((0, 0),), Protocol.quick(Task()), router={"k": 1}, trainer={"start": "oracle"}
    )
    with pytest.raises(ValueError, match="start='oracle' needs a learned router"):
        run_cell(cell, tmp_path, verbose=False)
