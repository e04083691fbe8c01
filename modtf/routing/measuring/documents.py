"""What would be measured if modules knew nothing of labels: the same documents, their labels permuted.

Tokens of a document are alike, so they cannot change labels one by one. Documents of one label exchange
theirs; in a document of several its tokens do. Of documents of one label the sums of their activations are
kept while they are few, and labels are permuted. Of more, and within documents, the sums under permuted
labels are drawn from their limit. The D_r documents of a label are a sample without replacement from all D,
so their sum S_r [M] has the mean D_r a and covariances (D_r [r = r'] - D_r D_r' / D) D/(D-1) C, with a and C
the mean and the covariance of all documents' sums; a sum of many is normal. The same holds for the n_r tokens
of a label among the n of a document, and sums over independent documents add up their means and variances.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.metrics.distributions import Array
from modtf.routing.measuring.checks import Ints
from modtf.routing.measuring.gates import Tokens, sum_rows

SAMPLE = 2**11  # tokens of a chunk that say how modules go together within documents


class Documents:
    """What one layer did in documents, by either view: gate mass and hard assignment. Of up to `most`
    documents of one label sums are kept; of more their moments are."""

    def __init__(self, num_modules: int, most: int):
        self.most = most
        self.kept: list[tuple[Array, Ints]] | None = []  # sums [2, documents, M] and labels
        self.counts = np.zeros(0, np.int64)  # [R], documents of one label
        self.total = np.zeros((2, num_modules))  # what they add up to
        self.squares = np.zeros((2, num_modules, num_modules))
        # Of documents of several labels: mean and variance of the sums under permuted labels, [2, R, M].
        self.mean = np.zeros((2, 0, num_modules))
        self.variance = np.zeros((2, 0, num_modules))
        self.within = np.zeros((2, num_modules, num_modules))
        self.open: tuple[Array, Array, Array] | None = None  # of the document that may go on

    def make_room(self, num_labels: int) -> None:
        """Adds rows for labels below `num_labels`."""
        missing = num_labels - len(self.counts)
        self.counts = np.pad(self.counts, (0, missing))
        self.mean, self.variance = (
            np.pad(a, ((0, 0), (0, missing), (0, 0))) for a in (self.mean, self.variance)
        )

    def add(self, views: tuple[Tokens, Tokens], pairs: "Pairs") -> None:
        """Adds tokens of some documents, of which the first may go on from before, the last hereafter."""
        size = pairs.num_documents
        took = views[1].weights.sum(axis=1)  # 0 for a token that no module took
        counts: NDArray[Any] = np.bincount(pairs.of_token, took, len(pairs.document))
        sums, squares = (np.stack([v.sums(pairs.index, size, power) for v in views]) for power in (1, 2))
        if len(pairs.document) > size:
            self._correlate(views, pairs.index)
        if self.open is not None:
            counts[pairs.before] += self.open[0]
            sums[:, 0] += self.open[1]
            squares[:, 0] += self.open[2]
        last = pairs.document == size - 1
        self.open = counts[last], sums[:, -1], squares[:, -1]
        self._close(pairs.document[~last], pairs.label[~last], counts[~last], sums[:, :-1], squares[:, :-1])

    def close(self, labels: Ints) -> None:
        """Ends the document that may have gone on, of these labels."""
        if self.open is not None:
            counts, sums, squares = self.open
            self.open = None
            self._close(np.zeros(len(labels), np.int64), labels, counts, sums[:, None], squares[:, None])

    def _close(self, document: Ints, label: Ints, counts: Array, sums: Array, squares: Array) -> None:
        size = sums.shape[1]
        several = np.bincount(document, minlength=size) > 1
        one = ~several[document]
        if one.any():
            self._add_of_one_label(sums[:, document[one]], label[one])
        if several.any():
            document, label, counts = document[~one], label[~one], counts[~one]
            tokens = np.bincount(document, counts, size)[:, np.newaxis]
            n = np.maximum(tokens, 1.0)
            mean = sums / n
            spread = np.maximum(squares / n - mean**2, 0.0) / np.maximum(tokens - 1.0, 1.0)
            for view in range(2):
                expected = counts[:, np.newaxis] * mean[view][document]
                between = counts[:, np.newaxis] * (tokens[document] - counts[:, np.newaxis])
                self.mean[view] += sum_rows(expected, label, len(self.counts))
                self.variance[view] += sum_rows(between * spread[view][document], label, len(self.counts))

    def _add_of_one_label(self, sums: Array, labels: Ints) -> None:
        self.counts += np.bincount(labels, minlength=len(self.counts))
        self.total += sums.sum(axis=1)
        if self.kept is not None:
            self.kept.append((sums, labels))
            if self.counts.sum() <= self.most:
                return
            sums, self.kept = np.concatenate([some for some, _ in self.kept], axis=1), None
        self.squares += sums.transpose(0, 2, 1) @ sums

    def _correlate(self, views: tuple[Tokens, Tokens], index: Ints) -> None:
        index = index[:SAMPLE]
        tokens = np.bincount(index)[:, np.newaxis]
        for view, some in enumerate(views):
            few = some.head(len(index))
            rows = few.sums(np.arange(len(index)), len(index))
            sums = few.sums(index, len(tokens))
            self.within[view] += rows.T @ rows - sums.T @ (sums / tokens)

    def permuted(self, view: int, labels: Ints, permutations: int, seed: int) -> Array:
        """The sums of the activations of labels `[R]` under permuted labels, `[permutations, R, M]`, by view
        0 (gate mass) or 1 (hard assignment). A seed permutes all layers and views alike."""
        generator = np.random.default_rng(seed)
        counts, total = self.counts[labels], self.total[view]
        num = counts.sum()
        found = np.zeros((permutations, len(labels), len(total)))
        if self.kept:
            sums = np.concatenate([some[view] for some, _ in self.kept])
            of_label = np.searchsorted(labels, np.concatenate([some for _, some in self.kept]))
            for number in range(permutations):
                found[number] = sum_rows(sums, generator.permutation(of_label), len(labels))
        elif num:
            covariance = (self.squares[view] - np.outer(total, total / num)) / max(num - 1, 1)
            variance = np.outer(counts * (1 - counts / num), np.maximum(np.diag(covariance), 0.0))
            mean = np.outer(counts, total) / num
            found += _from_limit(mean, variance, covariance, counts, False, permutations, generator)
        mean, variance = self.mean[view][labels], self.variance[view][labels]
        if variance.any():
            weights = variance.sum(axis=1)
            found += _from_limit(mean, variance, self.within[view], weights, True, permutations, generator)
        else:
            found += mean
        return found


class Pairs:
    """Which labels stand in which of some documents, in a row: `document` and `label` of every pair that
    occurs, sorted; of tokens the document `index` `[T]` and the pair `of_token` `[T]`; and the pairs of the
    labels that stood in the first document `before`."""

    def __init__(self, index: Ints, labels: Ints, before: Ints):
        self.index, self.num_documents = index, int(index[-1]) + 1
        base = max(int(labels.max()), int(before.max(initial=0))) + 1
        found, of = np.unique(np.concatenate([before, index * base + labels]), return_inverse=True)
        self.document, self.label = np.divmod(found, base)
        self.before, self.of_token = np.split(of, [len(before)])


def _from_limit(
    mean: Array, variance: Array, covariance: Array, weights: Array | Ints, keep: bool, permutations: int,
    generator: np.random.Generator,
) -> Array:  # fmt: skip
    """Draws `[permutations, R, M]` of the limit in the module's docstring.

    Sums of independent normal Z_r have too much freedom: they must add up to that of all tokens, so each
    label gives back its share of what they exceed it by. A cell whose mean is less than four standard
    deviations is not normal: few tokens make it up. There it is a Poisson number of steps, as large as gives
    it its variance, and rows and columns are scaled to their sums again. With two tokens a cell the mutual
    information by chance is right to a few percent for hard assignment, and to a seventh for very unequal
    gate mass. `covariance` `[M, M]` says how modules go together, in proportion to the labels' `weights`;
    where it gives another variance, cells are scaled. With `keep` a row always has the sum of its mean."""
    values, vectors = np.linalg.eigh(covariance)
    root: NDArray[Any] = (vectors * np.sqrt(np.maximum(values, 0.0))).astype(np.float32)
    share = weights / weights.sum()
    singles: list[NDArray[Any]] = [a.astype(np.float32) for a in (mean, variance, share, weights)]
    mean, variance, share, weights = singles
    noise = generator.standard_normal((permutations, *mean.shape), np.float32) @ root.T
    noise *= np.sqrt(weights)[:, np.newaxis]
    noise -= share[:, np.newaxis] * noise.sum(axis=1, keepdims=True)
    had = np.outer(weights * (1.0 - share), np.maximum(np.diag(covariance), 0.0)).astype(np.float32)
    noise *= np.sqrt(np.divide(variance, had, out=np.zeros_like(had), where=had > 0))
    rows = mean.sum(axis=1, keepdims=True)
    rows = np.maximum(rows + (0.0 if keep else noise.sum(axis=2, keepdims=True)), 0.0)
    noise += mean
    few = (mean**2 < 16.0 * variance) & (mean > 0)
    free = variance / np.maximum(1.0 - share, 1e-9)[:, np.newaxis]  # what scaling columns takes away again
    step = free[few] / mean[few]
    for one in noise:  # all at once would be slow for the memory they take
        one[few] = step * generator.poisson(mean[few] / step)
    drawn = np.maximum(noise, 0.0, out=noise)
    columns = mean.sum(axis=0, keepdims=True)
    for _ in range(4):
        for axis, wanted in ((1, columns), (2, rows)):
            sums = drawn.sum(axis=axis, keepdims=True)
            if not (sums > 0).all():  # a row or column without any event: as expected
                drawn = np.where(sums > 0, drawn, mean)
                sums = drawn.sum(axis=axis, keepdims=True)
            drawn *= np.divide(wanted, sums, out=np.ones_like(sums), where=sums > 0)
    return drawn
