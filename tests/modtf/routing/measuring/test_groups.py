import numpy as np
from activation_strategies import FAST
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from modtf.routing.measuring.tokens import count_within, deal, group_documents


@FAST
@given(num_tokens=st.integers(1, 5000), num_groups=st.integers(2, 40))
def test_groups_are_of_nearly_equal_size(num_tokens, num_groups):
    group = deal(np.arange(num_tokens), num_groups)
    sizes = np.bincount(group, minlength=num_groups)
    assert len(sizes) == num_groups
    assert sizes.max() <= 1.25 * sizes.min() + 1


@FAST
@given(num_tokens=st.integers(200, 20_000), num_groups=st.integers(2, 40))
def test_runs_grow_with_the_data(num_tokens, num_groups):
    """The last complete run is about a quarter of what its group had before."""
    group = deal(np.arange(num_tokens), num_groups)
    lengths = np.diff(np.flatnonzero(np.diff(group, prepend=-1)))
    assert (np.diff(lengths) >= 0).all()
    before = (lengths[:-1].sum() - lengths[-num_groups:-1].sum()) / num_groups
    assert lengths[-1] >= before / 6 - 1
    assert lengths[-1] <= before / 3 + 1


@FAST
@given(labels=arrays(np.int64, st.integers(0, 60), elements=st.integers(0, 4)), seen=st.integers(0, 9))
def test_tokens_of_a_label_are_counted(labels, seen):
    before = np.arange(5) * seen
    counts = before.copy()
    expected = []
    for label in labels:
        expected.append(counts[label])
        counts[label] += 1
    assert count_within(labels, before).tolist() == expected


def test_documents_stay_together_and_are_spread():
    documents = np.repeat(np.arange(10_000), 3)
    for numbering in (documents, 32 * documents, 2**40 + 7 * documents):
        group = group_documents(numbering, 32)
        assert (group.reshape(-1, 3) == group.reshape(-1, 3)[:, :1]).all()
        sizes = np.bincount(group, minlength=32)
        assert sizes.min() > 0.8 * sizes.mean()
        assert sizes.max() < 1.2 * sizes.mean()
