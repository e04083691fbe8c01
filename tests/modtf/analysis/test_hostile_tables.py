"""Tables and studies reject invalid arguments with clear errors."""

import contextlib

import pandas as pd
import pytest
from hostile import anything, few, one_thing, survives
from hypothesis import given
from hypothesis import strategies as st

import modtf
from modtf.analysis.figures import NothingToDraw

COLUMNS = ["arch", "num_rules", "variant", "data_seed", "value", "measure", "condition", "nonsense", ""]
columns = st.lists(st.sampled_from(COLUMNS) | anything, max_size=3) | anything


@pytest.fixture(scope="module")
def frame(small_study):
    return small_study.results[small_study.results["measure"] == "alignment"]


@few
@given(given_=st.fixed_dictionaries({}, optional={
    "by": columns, "over": columns, "value": st.sampled_from(COLUMNS) | anything, "level": anything,
}))  # fmt: skip
def test_summarise(frame, given_):
    found = survives(lambda: modtf.summarise(frame, **given_))
    assert found is None or {"mean", "low", "high"} <= set(found)


@few
@given(
    table=anything, dropped=st.integers(0), changed=st.sampled_from(["value", "num_rules"]), value=one_thing
)
def test_summarise_other_tables(frame, table, dropped, changed, value):
    """The argument is not a table, lacks a column, is empty, or holds other values."""
    lacking = frame.drop(columns=list(frame)[dropped % len(frame.columns)])
    for other in (table, lacking, frame.iloc[:0], frame.assign(**{changed: [value] * len(frame)})):
        found = survives(lambda other=other: modtf.summarise(other, ["num_rules", "variant"], list(frame)))
        assert found is None or isinstance(found, pd.DataFrame)


@few
@given(
    name=anything | st.sampled_from(["activation", "ranking"]),
    choice=st.dictionaries(st.sampled_from(["data_seed", "num_rules", "nonsense"]), anything, max_size=2),
    chosen=st.dictionaries(st.sampled_from(["measure", "width", "nonsense"]), anything, max_size=1),
    names=st.lists(anything, max_size=2) | anything,
)
def test_study(small_study, name, choice, chosen, names):
    with contextlib.suppress(NothingToDraw):
        survives(lambda: small_study.figure(name, **choice))
    survives(lambda: small_study.summary(**chosen), "column")
    survives(lambda: next(small_study.activations(**chosen), None), "cell")
    survives(lambda: small_study.claims(names))
