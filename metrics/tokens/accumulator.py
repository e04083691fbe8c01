"""Sums over tokens, chunk by chunk, in memory that does not grow with the number of tokens.

Tokens are dealt to groups, by which the uncertainty of the measures is judged (see estimates.py).
Neighbouring tokens are alike: they come from one document. So tokens are not dealt one by one. The tokens of
a label are dealt in runs, one run to each group in turn, and runs grow with what was dealt before, to a
quarter of it. So every group gets the same share of every label, whatever the order of the tokens and however
many there will be, and runs get as long as the data allow.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from modtf.checks import check_integer, check_number
from modtf.metrics.measure import GROUPS
from modtf.metrics.tokens.chance import NUM_PERMUTATIONS
from modtf.metrics.tokens.checks import Ints, check_gates, check_labels
from modtf.metrics.tokens.gates import gate_mass, hard_assignment
from modtf.metrics.tokens.layer import LayerMeasures
from modtf.metrics.tokens.summarise import measure_sums
from modtf.metrics.tokens.sums import Sums

NUM_GROUPS = 32
SLICE = 2**14  # tokens worked on at a time: with 64 modules their gates take 8 MiB
MOST_LABELS = 2**14


class ActivationAccumulator:
    """Adds up what a router does with tokens of known labels; `result()` measures it.

    Args:
        from_logits: whether activations are logits, before the softmax.
        top_k: how many modules a token is sent to: only the k largest gates count, renormalised, and the hard
            assignment is to k modules, 1/k each. None: all gates count, the hard one is the largest.
        num_groups: of tokens, over which the intervals are computed. Memory grows with it.

    Raises:
        ValueError: if top_k or num_groups is no positive integer.

    Example:
        >>> seen = ActivationAccumulator()
        >>> for seed in range(3):
        ...     generator = np.random.default_rng(seed)
        ...     labels = generator.integers(4, size=1000)
        ...     seen.update(np.eye(4)[labels], labels)
        >>> (layer,) = seen.result(permutations=20)
        >>> layer.mass.values["alignment"].value
        0.0
    """

    def __init__(self, *, from_logits: bool = False, top_k: int | None = None, num_groups: int = NUM_GROUPS):
        self.from_logits = from_logits
        self.top_k = None if top_k is None else check_integer("top_k", top_k, 1)
        self.num_groups = check_integer("num_groups", num_groups, 2)
        self.sums: Sums | None = None  # made when the first chunk says of which size

    def update(self, activations: ArrayLike, labels: ArrayLike, documents: ArrayLike | None = None) -> None:
        """Adds a chunk of tokens, of any length.

        Args:
            activations: gates or logits `[tokens, M]` or `[layers, tokens, M]`.
            labels: integers from 0, `[tokens]`.
            documents: integers `[tokens]`: tokens of one document stay in one group, so that the intervals
                hold for new documents. Without them neighbouring tokens do (see `measure_activations`).

        Raises:
            ValueError: if these are not what they should be, or of another size than the chunks before. Part
                of the chunk may have been added then: start anew.
        """
        gates = check_gates(activations)
        num_layers, num_tokens, num_modules = gates.shape
        if self.top_k is not None and self.top_k > num_modules:
            raise ValueError(f"top_k={self.top_k}, but there are only {num_modules} modules.")
        classes = check_labels(labels, num_tokens)
        ids = None if documents is None else check_labels(documents, num_tokens, "documents")
        if num_tokens == 0:
            return
        if classes.max() >= MOST_LABELS:
            raise ValueError(
                f"labels hold {classes.max()}; expected class numbers below {MOST_LABELS}. Map them to fewer "
                "classes (tokens of a vocabulary to token classes, documents to domains)."
            )
        if self.sums is None:
            self.sums = Sums(num_layers, num_modules, self.num_groups, ids is not None)
        self.sums.check_chunk(num_layers, num_modules, ids is not None)
        self.sums.make_room(int(classes.max()) + 1)
        before = int(self.sums.counts.sum())  # errors count tokens from the first of all chunks
        for start in range(0, num_tokens, SLICE):
            part = slice(start, start + SLICE)
            self._add(
                self.sums, gates[:, part], classes[part], None if ids is None else ids[part], before + start
            )

    def _add(self, sums: Sums, gates: np.ndarray, labels: Ints, documents: Ints | None, start: int) -> None:
        if documents is None:
            group = deal(count_within(labels, sums.counts.sum(axis=0)), self.num_groups)
        else:
            group = group_documents(documents, self.num_groups)
        cell = sums.add_labels(group, labels)
        for layer, values in enumerate(gates):
            mass = gate_mass(values, self.from_logits, self.top_k, start)
            sums.add_layer(layer, mass, hard_assignment(mass, self.top_k), cell)

    def result(
        self,
        *,
        label_probs: ArrayLike | None = None,
        groups: Iterable[str] = GROUPS,
        permutations: int = NUM_PERMUTATIONS,
        confidence: float = 0.95,
        seed: int = 0,
    ) -> list[LayerMeasures]:
        """The measures of the tokens so far, one entry per layer; arguments as for `measure_activations`.

        Raises:
            ValueError: if there was no token yet, or an argument is not valid.
        """
        if self.sums is None:
            raise ValueError("There was no token yet: call update(activations, labels) first.")
        return measure_sums(
            self.sums,
            top_k=self.top_k,
            label_probs=label_probs,
            groups=groups,
            permutations=check_integer("permutations", permutations, 0),
            confidence=check_number("confidence", confidence, 0.5, 0.9999),
            seed=check_integer("seed", seed, 0),
        )


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
