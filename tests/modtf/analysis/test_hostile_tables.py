"""Tables and studies refuse what makes no sense, in words of their own."""

import contextlib

import numpy as np
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
@given(data=st.data())
def test_summarise_other_tables(frame, data):
    """What is no table, lacks a column, or holds other values."""
    given_ = data.draw(anything | st.sampled_from(["dropped", "empty", "changed"]))
    if given_ == "dropped":
        given_ = frame.drop(columns=data.draw(st.sampled_from(list(frame))))
    elif given_ == "empty":
        given_ = frame.iloc[:0]
    elif given_ == "changed":
        column, value = data.draw(st.sampled_from(["value", "data_seed", "num_rules"])), data.draw(one_thing)
        given_ = frame.assign(**{column: [value] * len(frame)})
    found = survives(lambda: modtf.summarise(given_, ["num_rules", "variant"], list(frame)))
    assert found is None or isinstance(found, pd.DataFrame)


@few
@given(
    name=anything | st.sampled_from(["activation", "ranking"]),
    choice=st.dictionaries(st.sampled_from(["data_seed", "num_rules", "nonsense"]), anything, max_size=2),
)
def test_figure(small_study, name, choice):
    with contextlib.suppress(NothingToDraw):
        survives(lambda: small_study.figure(name, **choice))


@few
@given(chosen=st.dictionaries(st.sampled_from(["measure", "width", "nonsense"]), anything, max_size=1))
def test_summary_and_activations(small_study, chosen):
    survives(lambda: small_study.summary(**chosen), "column")
    survives(lambda: next(small_study.activations(**chosen), None), "cell")


@few
@given(names=st.lists(anything, max_size=2) | anything)
def test_claims(small_study, names):
    found = survives(lambda: small_study.claims(names))
    assert found is None or np.isfinite(len(found))
