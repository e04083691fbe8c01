"""Sums under permuted labels, for the chance level: the measures if modules are independent of labels.

Neighbouring tokens are alike, so labels are not permuted token by token but unit by unit. A unit is

- a document, if all of its tokens have one label: such documents exchange labels with each other;
- a run of tokens of one label (a chat turn, a code block, a single token) in a document of several labels:
  runs exchange labels within their document, since documents differ. `spans` split runs further.

Only the sums of a unit's activations are needed. They are kept for up to `most` units of either kind, and the
sums under permuted labels are one product of permuted labels with them. For more units these sums are drawn
from their limit distribution. The D_r documents of a label are a sample without replacement from all D, so
their sum S_r [M] has the mean D_r a and covariances (D_r [r = r'] - D_r D_r' / D) D/(D-1) C, where a and C
are the mean and covariance of all documents' sums. A sum of many is normal. The same holds for the runs of a
label within a document. For sums over independent documents, means and variances add up.

If units of some labels are far longer than those of others, sums vary more under permuted labels than those
of the labels themselves, so the chance level is too high: `uneven` finds such labels.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from modtf.metrics.distributions import Array
from modtf.routing.measuring.checks import Ints
from modtf.routing.measuring.gates import Tokens, sum_rows
from modtf.routing.measuring.limit import draw_from_limit
from modtf.routing.measuring.units import Units

SAMPLE = 2**11  # runs of a chunk from which the covariance of modules within documents is estimated
Sums = NDArray[np.float32]
#: how many times longer the units of one label may be. Among 150 simulated routers that knew nothing, 3% lay
#: below the chance band at a ratio of 2, 6% at 3, 17% at 5 and 41% at 10 (2.5% are meant to)
UNEVEN = 2.5


class Documents:
    """Sums of one layer over documents and runs, for each view: gate mass and hard assignment.

    Args:
        num_modules: M.
        most: the number of units of either kind whose sums are kept.
        num_views: V.
    """

    def __init__(self, num_modules: int, most: int, num_views: int = 2):
        self.most, self.num_labels = most, 0
        self.whole: list[tuple[Sums, Ints]] | None = []  # documents of one label: sums [V, D, M], labels
        self.runs: list[tuple[Sums, Ints, Ints]] = []  # runs: sums, labels, numbers of their documents
        self.num_whole = self.num_runs = self.num_several = 0
        self.is_full = False  # whether `most` runs are kept already
        self.sent: Ints = np.zeros(num_modules, np.int64)  # tokens sent to each module
        shape = num_views, num_modules
        # Documents of one label that are not kept: their number [R], their sums, and sums of products.
        self.counts = np.zeros(0, np.int64)
        self.units = np.zeros((2, 0))  # of each label: number of units, their tokens
        self.total, self.squares = np.zeros(shape), np.zeros((*shape, num_modules))
        # Runs that are not kept: mean and variance of the sums under permuted labels, [V, R, M].
        self.mean, self.variance = (np.zeros((num_views, 0, num_modules)) for _ in range(2))
        self.within = np.zeros((*shape, num_modules))
        self.open: tuple[Array, Ints] | None = None  # units of the last document, which may continue
        # The open document, if it has too many runs: runs of each label, sum, squares, earlier `within`.
        self.long: tuple[Ints, Array, Array, Array] | None = None

    def make_room(self, num_labels: int) -> None:
        """Add rows for labels below `num_labels`."""
        missing, self.num_labels = num_labels - self.num_labels, num_labels
        self.counts = np.pad(self.counts, (0, missing))
        self.units = np.pad(self.units, ((0, 0), (0, missing)))
        self.mean, self.variance = (
            np.pad(a, ((0, 0), (0, missing), (0, 0))) for a in (self.mean, self.variance)
        )

    def add(self, views: Sequence[Tokens], units: Units) -> None:
        """Add tokens. The first may continue a unit from before, the last may continue in the next call."""
        self.sent += views[-1].sent()
        label, document = units.label, units.document
        sums = np.stack([v.sums(units.index, len(label)) for v in views])
        if self.open is not None and units.same_document:
            before, of_before = self.open
            if units.same_unit:
                sums[:, 0] += before[:, -1]
                before, of_before = before[:, :-1], of_before[:-1]
            sums, label = np.concatenate([before, sums], axis=1), np.append(of_before, label)
            document = np.append(np.zeros(len(of_before), np.int64), document)
        else:
            self.close()
        cut = int(document.searchsorted(document[-1]))
        if cut:
            first = int(document.searchsorted(1))
            self.open = sums[:, :first], label[:first]
            self.close()
            self._close(sums[:, first:cut], label[first:cut], document[first:cut] - 1)
        self.open = sums[:, cut:].copy(), label[cut:]
        if len(self.open[1]) > self.most + 1:
            self._shorten(len(self.open[1]) - 1)

    def close(self) -> None:
        """Complete the open document."""
        if self.open is None:
            return
        if self.long is not None:
            self._shorten(len(self.open[1]))
            runs, total, squares, within = self.long
            label, self.long = np.flatnonzero(runs), None
            if len(label) > 1:
                document = np.zeros(len(label), np.int64)
                self._add_limit(document, label, runs[label], total[:, None], squares[:, None])
                self.num_several, self.is_full = self.num_several + 1, True
            else:  # one unit, whatever its spans; none if all of its tokens were dropped
                self.within = within
                self.add_whole(total[:, None].repeat(len(label), axis=1), label)
        else:
            self._close(*self.open, np.zeros(len(self.open[1]), np.int64))
        self.open = None

    def _shorten(self, number: int) -> None:
        """Sum the first runs of the open document, which has too many runs to keep."""
        assert self.open is not None
        sums, label = self.open
        took = sums[-1, :number].any(axis=1)
        some, which = sums[:, :number][:, took], label[:number][took]
        nothing = np.zeros(0, np.int64), np.zeros(1), np.zeros(1), self.within.copy()
        runs, total, squares, within = self.long or nothing
        counts = np.bincount(which, minlength=self.num_labels)
        counts[: len(runs)] += runs
        self.long = counts, total + some.sum(axis=1), squares + (some**2).sum(axis=1), within
        self._correlate(some, np.zeros(len(which), np.int64))
        self.open = sums[:, number:], label[number:]

    def _close(self, sums: Array, label: Ints, document: Ints) -> None:
        """Add the units of complete documents, which are numbered from 0 or 1."""
        took = sums[-1].any(axis=1)  # leave out units whose tokens were all dropped
        if not took.all():
            sums, label, document = sums[:, took], label[took], document[took]
        if not len(label):
            return
        document = np.cumsum(np.diff(document, prepend=document[0]) != 0)
        ends = np.append(np.flatnonzero(np.diff(document)), len(label) - 1)
        differ = np.concatenate([[0], np.cumsum(np.diff(label) != 0)])
        starts = np.concatenate([[0], ends[:-1] + 1])
        several = differ[ends] > differ[starts]
        if not several.all():
            one = ~several[document]
            merged = document[one]  # a document of one label is one unit, whatever its spans
            merged = np.cumsum(np.diff(merged, prepend=merged[0]) != 0)
            size = int(merged[-1]) + 1
            rows = sums[:, one]
            if size < one.sum():
                rows = np.stack([sum_rows(view, merged, size) for view in rows])
            self.add_whole(rows, label[starts[~several]])
        if several.any():
            of = several[document]
            self._add_runs(sums[:, of], label[of], np.unique(document[of], return_inverse=True)[1])

    def add_whole(self, sums: Array, labels: Ints) -> None:
        """Add documents with one label each: sums `[V, D, M]` and labels `[D]`."""
        self._count(sums, labels)
        self.num_whole += len(labels)
        self.counts += np.bincount(labels, minlength=len(self.counts))
        self.total += sums.sum(axis=1)
        if self.whole is not None:
            self.whole.append((sums.astype(np.float32), labels))
            if self.num_whole <= self.most:
                return
            sums, self.whole = np.concatenate([some for some, _ in self.whole], axis=1), None
        sums = sums.astype(np.float64)
        self.squares += sums.transpose(0, 2, 1) @ sums

    def _add_runs(self, sums: Array, label: Ints, document: Ints) -> None:
        self._count(sums, label)
        number = np.bincount(document)
        fits = int((self.num_runs + number.cumsum() <= self.most).sum()) if not self.is_full else 0
        cut = int(number[:fits].sum())
        if cut:
            self.runs.append(
                (sums[:, :cut].astype(np.float32), label[:cut], document[:cut] + self.num_several)
            )
        self.num_runs, self.num_several = self.num_runs + cut, self.num_several + len(number)
        if cut == len(label):
            return
        self.is_full = True
        sums, label, document = sums[:, cut:], label[cut:], document[cut:] - fits
        size = len(number) - fits
        total, squares = (np.stack([sum_rows(v, document, size) for v in some]) for some in (sums, sums**2))
        pairs, runs = np.unique(document * self.num_labels + label, return_counts=True)
        self._correlate(sums, document)
        self._add_limit(*np.divmod(pairs, self.num_labels), runs, total, squares)

    def _count(self, sums: Array, label: Ints) -> None:
        for row, each in zip(self.units, (None, sums[-1].sum(axis=1)), strict=True):
            row += np.bincount(label, each, len(row))

    def uneven(self) -> tuple[int, int, float] | None:
        """Return the labels of the longest and the shortest units and the ratio; None if below `UNEVEN`."""
        labels = np.flatnonzero(self.units[0])
        if len(labels) < 2:
            return None
        number, tokens = self.units[:, labels]
        length = tokens / number
        longest, shortest = int(length.argmax()), int(length.argmin())
        ratio = float(length[longest] / length[shortest])
        return (int(labels[longest]), int(labels[shortest]), ratio) if ratio >= UNEVEN else None

    def _add_limit(self, document: Ints, label: Ints, runs: Ints, total: Array, squares: Array) -> None:
        """Add documents to the limit, from their sums over runs and the number of runs of each label."""
        number = np.bincount(document, runs)[:, np.newaxis]
        mean = total / number
        spread = np.maximum(squares / number - mean**2, 0.0) / np.maximum(number - 1.0, 1.0)
        for view in range(len(total)):
            expected = runs[:, np.newaxis] * mean[view][document]
            between = runs[:, np.newaxis] * (number[document] - runs[:, np.newaxis])
            self.mean[view] += sum_rows(expected, label, self.num_labels)
            self.variance[view] += sum_rows(between * spread[view][document], label, self.num_labels)

    def _correlate(self, sums: Array, document: Ints) -> None:
        document = document[:SAMPLE]
        number = np.bincount(document)[:, np.newaxis]
        for view, rows in enumerate(sums[:, :SAMPLE]):
            total = sum_rows(rows, document, len(number))
            self.within[view] += rows.T @ rows - total.T @ (total / number)

    def permuted(self, labels: Ints, permutations: int, seed: int) -> Array:
        """Return the sums of labels `[R]` under permuted labels, `[V, permutations, R, M]`.

        The same seed gives the same permutations in all layers and views.
        """
        num_views, num_modules = self.total.shape
        shape = num_views, permutations, len(labels), num_modules
        sums = self._exchanged(labels, permutations, seed).reshape(shape)
        for view in range(num_views):
            generator = np.random.default_rng(seed)
            if self.whole is None:
                counts, total = self.counts[labels], self.total[view]
                num = counts.sum()
                covariance = (self.squares[view] - np.outer(total, total / num)) / max(num - 1, 1)
                variance = np.outer(counts * (1 - counts / num), np.maximum(np.diag(covariance), 0.0))
                mean = np.outer(counts, total) / num
                sums[view] += draw_from_limit(mean, variance, covariance, counts, permutations, generator)
            mean, variance = self.mean[view][labels], self.variance[view][labels]
            if variance.any():
                limit = mean, variance, self.within[view], variance.sum(axis=1)
                sums[view] += draw_from_limit(*limit, permutations, generator)
            else:
                sums[view] += mean
        return sums

    def _exchanged(self, labels: Ints, permutations: int, seed: int) -> Array:
        """Return the sums of the kept units under permuted labels."""
        from scipy.sparse import coo_array  # slow to import

        generator = np.random.default_rng(seed)
        kept, permuted = [], []
        if self.whole:
            of_label = labels.searchsorted(np.concatenate([some for _, some in self.whole]))
            kept += [sums for sums, _ in self.whole]
            permuted.append(np.array([generator.permutation(of_label) for _ in range(permutations)]))
        if self.runs:
            of_label = labels.searchsorted(np.concatenate([some for _, some, _ in self.runs]))
            document = np.concatenate([some for *_, some in self.runs])  # sorted
            kept += [sums for sums, *_ in self.runs]
            orders = (np.lexsort((generator.random(len(document)), document)) for _ in range(permutations))
            permuted.append(np.array([of_label[order] for order in orders]))
        if not kept or not permutations:
            return np.zeros((len(self.total), permutations, len(labels), self.total.shape[1]), np.float32)
        sums = np.concatenate(kept, axis=1)
        unit_label = np.concatenate(permuted, axis=1)
        cell = (np.arange(permutations)[:, np.newaxis] * len(labels) + unit_label).ravel()
        unit = np.tile(np.arange(sums.shape[1]), permutations)
        shape = permutations * len(labels), sums.shape[1]
        ones = coo_array((np.ones(len(cell), np.float32), (cell, unit)), shape=shape).tocsr()
        return np.stack([ones @ view for view in sums])
