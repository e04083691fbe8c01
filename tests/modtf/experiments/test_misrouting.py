"""The figure of what misrouting costs, on simulated results."""

import numpy as np
import pytest
from simulated_results import study_of

from modtf.analysis import performance_rows
from modtf.analysis.figures import NothingToDraw
from modtf.experiments.modarch.figures import family_of_matrices

DOSES = [
    {"matrix": "spread", "amount": 0.0},
    {"matrix": "spread", "amount": 0.5},
    {"matrix": "spread", "amount": 0.5, "hard": True},
    {"matrix": "block", "amount": 2},
]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    variants = ["modular", "gt_modular", *(("clamped", dose) for dose in DOSES)]
    return study_of(tmp_path_factory.mktemp("doses"), rules=[8], data_seeds=range(3), variants=variants)


def test_every_dose_is_a_point_of_its_family(study):
    [picture, *_] = study.figure("misrouting")
    assert picture.name == "misrouting_mlp_regression_r8_e32"
    points = picture.table.groupby(["where", "against", "variant"], observed=True).size().unstack()
    assert points["spread, soft"].eq(2).all()
    assert points[["spread, drawn", "block, soft", "modular", "gt_modular"]].eq(1).all(axis=None)
    assert len(points) == 4  # in and out of distribution, against two measures
    rows = study.results.query("kind == 'MLP regression' and variant == 'modular'")
    point = picture.table.query("variant == 'modular' and against == 'Alignment'").set_index("where")
    assert point["x"].to_numpy() == pytest.approx(rows[rows["measure"] == "alignment"]["value"].mean())
    expected = performance_rows(rows).groupby("distribution", observed=True)["value"].mean()
    assert sorted(point["mean"]) == pytest.approx(sorted(expected))
    assert np.isfinite(picture.table[["mean", "low", "high"]]).all(axis=None)


def test_families_of_matrices():
    assert family_of_matrices("") == "spread, soft"
    assert family_of_matrices("matrix=collapsed,amount=4,hard=True") == "collapsed, drawn"


def test_without_given_routing_it_says_how_to_get_it(study):
    with pytest.raises(NothingToDraw, match="sweep --study=misrouting"):
        [*study.of_variants(["modular", "gt_modular"]).figure("misrouting")]
