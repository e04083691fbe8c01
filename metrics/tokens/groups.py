"""The group of every token: groups are what the uncertainty of the measures is judged by (see estimates.py).

Neighbouring tokens are alike: they come from one document. So tokens are not dealt one by one. The tokens of
a label are dealt in runs, one run to each group in turn, and runs grow with what was dealt before, to a
quarter of it. So every group gets the same share of every label, whatever the order of the tokens and however
many there will be, and runs get as long as the data allow.
"""

import numpy as np

from modtf.metrics.tokens.checks import Ints


def _rounds(most: int) -> tuple[Ints, Ints]:
    """Where in a group each round starts and how long its runs are, up to `most` tokens in a group."""
    starts, lengths = [0], [1]
    while starts[-1] < most:
        starts.append(starts[-1] + lengths[-1])
        lengths.append(max(1, starts[-1] // 4))
    return np.array(starts, np.int64), np.array(lengths, np.int64)


_STARTS, _LENGTHS = _rounds(most=2**48)


def deal(index: Ints, num_groups: int) -> Ints:
    """The group of the tokens that are the `index`-th, from 0, of their label.

    Example:
        >>> deal(np.array([0, 1, 2, 3, 4, 5]), num_groups=3).tolist()
        [0, 1, 2, 0, 1, 2]
        >>> deal(np.arange(24, 30), num_groups=3).tolist()
        [0, 0, 1, 1, 2, 2]
    """
    number = np.searchsorted(_STARTS, index // num_groups, side="right") - 1
    group: Ints = (index - _STARTS[number] * num_groups) // _LENGTHS[number]
    return group


def count_within(labels: Ints, seen: Ints) -> Ints:
    """How many tokens of its own label came before each token, with `seen [R]` before the first.

    Example:
        >>> count_within(np.array([1, 0, 1, 1]), seen=np.array([0, 10])).tolist()
        [10, 0, 11, 12]
    """
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels, minlength=len(seen))
    before = np.repeat(np.cumsum(counts) - counts, counts)
    index = np.empty_like(labels)
    index[order] = np.arange(len(labels)) - before + np.repeat(seen, counts)
    return index


def group_documents(documents: Ints, num_groups: int) -> Ints:
    """The group of the tokens of these documents: the same for all tokens of one, whatever the numbering."""
    mixed = documents.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # modulo 2^64
    return ((mixed >> np.uint64(33)) % np.uint64(num_groups)).astype(np.int64)
