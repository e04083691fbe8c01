"""The table of one layer, units x modules, and its sums under permuted labels: the chance level.

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

Units of some labels may be longer than those of others. Sums under permuted labels then get the labels' own
numbers of tokens, and the noise of as many (`with_own_tokens`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.metrics.distributions import Array
from modtf.routing.measuring.damage import Watch
from modtf.routing.measuring.layers import Ints, Layer, Shares, sum_rows
from modtf.routing.measuring.tokens import Part

TINY = np.finfo(np.float32).tiny
MOST_BYTES = 2**31
MOST_UNITS = 2**12  # limit on the documents, and on the runs, that are kept: sums of more are normal
KEPT = 2**24  # limit on the numbers kept for all layers, modules and documents (or runs): 128 MiB per view
LONG = 2**12  # runs of one document from which on it is cut into pieces, which exchange labels by themselves
PURE = 1e-6  # variance of tokens below which all tokens of a unit go to the same modules
AT_A_TIME = 2**24  # numbers of permuted sums that are made at a time
SAMPLE = 2**11  # runs of a part from which the covariance of modules within documents is estimated
Sums = NDArray[np.float32]


def check_labels_fit(num_labels: int, sizes: Sequence[int], num_groups: int) -> None:
    """Raise `ValueError` if the sums of this many labels in layers of these sizes would not fit in memory."""
    num_bytes = 16 * sum(sizes) * num_groups * num_labels
    if num_bytes > MOST_BYTES:
        raise ValueError(
            f"{num_labels} labels x {layer_sizes(sizes)} x {num_groups} groups would need "
            f"{num_bytes / 2**30:.1f} GiB. Map labels to fewer classes, or measure fewer layers at a time."
        )


def layer_sizes(sizes: Sequence[int]) -> str:
    """Return a text with the numbers of layers and modules."""
    alike = f"{sizes[0]} modules" if len(set(sizes)) == 1 else f"{sizes} modules"
    return f"{len(sizes)} layer(s) and {alike}"


class LayerTable:
    """The sums of one layer: by group and label, for values and intervals, and by unit, for chance levels.

    The sums of up to `most` units of either kind are kept.
    """

    def __init__(self, number: int, module_numbers: Ints, num_groups: int, most: int):
        self.module_numbers = module_numbers
        self.watch = Watch(number)
        self.groups = np.zeros((2, num_groups, 0, len(module_numbers)))  # gate mass and hard assignment
        self.units = Units(len(module_numbers), most)

    def make_room(self, num_labels: int) -> None:
        """Add rows for labels below `num_labels`."""
        missing = num_labels - self.groups.shape[2]
        if missing > 0:
            self.groups = np.pad(self.groups, ((0, 0), (0, 0), (0, missing), (0, 0)))
            self.units.make_room(num_labels)

    def add(self, layer: Layer, part: Part) -> None:
        """Add tokens of the layer."""
        self.watch.add(layer, part.some, part.first)
        both, shape = layer.read(part.some, part.first), self.groups.shape[1:]
        cell = part.group * shape[1] + part.labels
        for by, shares in enumerate(both):
            self.groups[by] += shares.sums(cell, shape[0] * shape[1]).reshape(shape)
        self.units.add(both, part)

    def add_counts(self, counts: Ints, top_k: int, labels: Ints, group: Ints, num_tokens: int) -> None:
        """Add documents from their counts `[documents, M]` of choices, `top_k` for each token."""
        self.watch.add_counts(counts, num_tokens)
        some, shape = counts / top_k, self.groups.shape[1:]
        cell = group * shape[1] + labels
        self.groups += sum_rows(some, cell, shape[0] * shape[1]).reshape(shape)
        took = some.any(axis=1)
        self.units.sent += counts.sum(axis=0)
        self.units.squares_of_tokens += some.sum() / top_k
        self.units.add_whole(np.stack([some[took]] * 2), labels[took])


class Units:
    """Sums over the units of one layer, for each view: gate mass and hard assignment.

    The sums of up to `most` units of either kind are kept.
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
        # of each label: number of units, their tokens, those of documents of one label, squares of the latter
        self.sizes = np.zeros((4, 0))
        self.squares_of_tokens = np.zeros(num_views)  # the sums over tokens of their squared weights
        self.every = np.zeros(shape)  # the sums over all units
        self.total, self.squares = np.zeros(shape), np.zeros((*shape, num_modules))
        # Runs that are not kept: mean and variance of the sums under permuted labels, [V, R, M].
        self.mean, self.variance = (np.zeros((num_views, 0, num_modules)) for _ in range(2))
        self.within = np.zeros((*shape, num_modules))
        # Units of the last document, which may continue, and whether a piece of it was added already.
        self.open: tuple[Array, Ints, bool] | None = None

    def make_room(self, num_labels: int) -> None:
        """Add rows for labels below `num_labels`."""
        missing, self.num_labels = num_labels - self.num_labels, num_labels
        self.counts = np.pad(self.counts, (0, missing))
        self.sizes = np.pad(self.sizes, ((0, 0), (0, missing)))
        self.mean, self.variance = (
            np.pad(a, ((0, 0), (0, missing), (0, 0))) for a in (self.mean, self.variance)
        )

    def add(self, views: Sequence[Shares], part: Part) -> None:
        """Add tokens. The first may continue a unit from before, the last may continue in the next call."""
        self.sent += views[-1].sent()
        self.squares_of_tokens += [float((one.weights**2).sum()) for one in views]
        label, document = part.unit_label, part.unit_document
        sums, is_piece = np.stack([one.sums(part.unit, len(label)) for one in views]), False
        if self.open is not None:
            if part.same_document:
                before, of_before, is_piece = self.open
                if part.same_unit:
                    sums[:, 0] += before[:, -1]
                    before, of_before = before[:, :-1], of_before[:-1]
                sums, label = np.concatenate([before, sums], axis=1), np.append(of_before, label)
                document = np.append(np.zeros(len(of_before), np.int64), document)
            else:
                self.close()
        cut = int(document.searchsorted(document[-1]))
        if cut:
            first = int(document.searchsorted(1))
            self._close(sums[:, :first], label[:first], document[:first], is_piece)
            self._close(sums[:, first:cut], label[first:cut], document[first:cut] - 1)
            is_piece = False
        self.open = sums[:, cut:].copy(), label[cut:], is_piece
        if len(label) - cut > LONG:
            self._shorten()

    def _shorten(self) -> None:
        """Add the open document but for its last run; if it has one label, make one unit of its spans."""
        assert self.open is not None
        sums, label, is_piece = self.open
        if (label == label[0]).all() and not is_piece:
            self.open = sums.sum(axis=1, keepdims=True), label[:1], False
        else:
            self._close(sums[:, :-1], label[:-1], np.zeros(len(label) - 1, np.int64), is_piece=True)
            self.open = sums[:, -1:], label[-1:], True

    def close(self) -> None:
        """Complete the open document."""
        if self.open is not None:
            sums, label, is_piece = self.open
            self.open = None
            self._close(sums, label, np.zeros(len(label), np.int64), is_piece)

    def _close(self, sums: Array, label: Ints, document: Ints, is_piece: bool = False) -> None:
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
        several = (differ[ends] > differ[starts]) | is_piece
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
        self._count(sums, labels, are_whole=True)
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
        pairs, of_unit, runs = np.unique(
            document * self.num_labels + label, return_inverse=True, return_counts=True
        )
        of_pair, label = np.divmod(pairs, self.num_labels)  # document and label of a pair
        all_runs, few = np.bincount(of_pair, runs), document[:SAMPLE]
        between = runs * (all_runs[of_pair] - runs)
        sampled = np.bincount(few)[:, np.newaxis]
        for view, rows in enumerate(sums):
            tokens, total = rows.sum(axis=1), sum_rows(rows, document, size)
            of_document = total.sum(axis=1)
            mean = total / of_document[:, np.newaxis]
            rest = rows - tokens[:, np.newaxis] * mean[document]
            some, sum_of = rest[:SAMPLE], sum_rows(rest[:SAMPLE], few, len(sampled))
            self.within[view] += some.T @ some - sum_of.T @ (sum_of / sampled)
            # a label has its own tokens in the document, not those of as many runs of any label
            own = np.bincount(of_unit, tokens)
            longer = own / (runs * (of_document / all_runs)[of_pair])
            spread = (
                sum_rows(rest**2, document, size) / (all_runs * np.maximum(all_runs - 1, 1))[:, np.newaxis]
            )
            self.mean[view] += sum_rows(own[:, np.newaxis] * mean[of_pair], label, self.num_labels)
            variance = (longer * between)[:, np.newaxis] * spread[of_pair]
            self.variance[view] += sum_rows(variance, label, self.num_labels)

    def _count(self, sums: Array, label: Ints, are_whole: bool = False) -> None:
        tokens = sums[-1].sum(axis=1)
        numbers = None, tokens, tokens * are_whole, tokens**2 * are_whole
        for row, each in zip(self.sizes, numbers, strict=True):
            row += np.bincount(label, each, len(row))
        self.every += sums.sum(axis=1)

    def permuted(self, labels: Ints, permutations: int, seed: int) -> Array:
        """Return the sums of labels `[R]` under permuted labels, `[V, permutations, R, M]`.

        Each label has as many tokens as in the data, see `with_own_tokens`. The same seed gives the same
        permutations in all layers and views.
        """
        found: list[Array] = []
        for view, every in enumerate(self.every):
            if view and np.array_equal(self.every[0], every) and np.ptp(self.squares_of_tokens) == 0:
                found.append(found[0])  # experts without weights: gate mass and hard assignment are the same
                continue
            sums = self._exchanged(view, labels, permutations, seed)
            generator, weight = np.random.default_rng(seed), self._weight(view)
            if self.whole is None:
                counts, total = self.counts[labels], self.total[view]
                num = counts.sum()
                covariance = (self.squares[view] - np.outer(total, total / num)) / max(num - 1, 1)
                variance = np.outer(counts * (1 - counts / num), np.maximum(np.diag(covariance), 0.0))
                mean = np.outer(counts, total) / num
                drawn = draw_from_limit(mean, variance, covariance, counts, permutations, generator)
                of_all = np.broadcast_to(total / total.sum(), mean.shape)
                own, ratio = self.sizes[2, labels], self._ratio(labels)
                sums += with_own_tokens(drawn, own, of_all, weight, generator, ratio)
            mean, variance = self.mean[view][labels], self.variance[view][labels]
            if variance.any():
                limit = mean, variance, self.within[view], variance.sum(axis=1)
                sums += draw_from_limit(*limit, permutations, generator)
            else:
                sums += mean
            own = self.sizes[1, labels]
            rows = np.broadcast_to((own * (every.sum() / own.sum()))[:, np.newaxis], (len(labels), 1))
            fits = [np.allclose(sums.sum(axis=1), every, rtol=1e-5)]
            fits += [np.allclose(sums.sum(axis=2, keepdims=True), rows, rtol=1e-5)]
            if not all(fits):
                sums = _fitted(sums, rows * every / every.sum(), rows)
            found.append(sums)
        return np.stack(found)

    def _weight(self, view: int) -> float:
        """Return the mean over tokens of the sum of their squared weights: 1/k for k equal weights."""
        return float(self.squares_of_tokens[view] / max(self.sizes[1].sum(), TINY))

    def _ratio(self, labels: Ints) -> Array:
        """Return how much the lengths of each label's documents differ, compared with those of all documents.

        It is the sum of squared lengths over the square of their sum, divided by what as many documents of
        any label have, at most 1: 1 if lengths do not depend on the label.
        """
        number, (tokens, squares) = self.counts[labels], self.sizes[2:, labels]
        pooled = squares.sum() * number.sum() / max(tokens.sum(), TINY) ** 2 / np.maximum(number, 1)
        own = squares / np.maximum(tokens, TINY) ** 2
        return np.asarray(own / np.clip(pooled, TINY, 1.0))

    def _exchanged(self, view: int, labels: Ints, permutations: int, seed: int) -> Any:
        """Return the sums of the kept units under permuted labels, `[permutations, R, M]`."""
        # two generators, so that noise does not change the permutations of other layers
        generator, noise = np.random.default_rng(seed), np.random.default_rng([seed, 1])
        found = np.zeros((permutations, len(labels), self.total.shape[1]), np.float32)
        if not permutations:
            return found
        if self.whole:
            label = labels.searchsorted(np.concatenate([some for _, some in self.whole]))
            sums = np.concatenate([some[view] for some, _ in self.whole])
            permuted = np.array([generator.permutation(label) for _ in range(permutations)])
            length = sums.sum(axis=1, dtype=np.float64)
            own, *others = (_unevenness(each, length, len(labels)) for each in (label, *permuted))
            ratio = (own / np.maximum(np.mean(others, axis=0), TINY))[np.unique(label)]
            pair, drawn = self._of_pairs(view, sums, label, np.zeros_like(label), permuted, noise, ratio)
            found[:, pair] += drawn
        if self.runs:
            label = labels.searchsorted(np.concatenate([some for _, some, _ in self.runs]))
            document = np.concatenate([some for *_, some in self.runs])  # sorted
            sums = np.concatenate([some[view] for some, *_ in self.runs])
            most = max(AT_A_TIME // (permutations * sums.shape[1]), 1)
            first = np.flatnonzero(np.diff(document, prepend=-1))
            starts = first[np.flatnonzero(np.diff(first // most, prepend=-1))].tolist()
            for some in map(slice, starts, [*starts[1:], len(document)]):
                of = document[some]
                orders = (np.lexsort((generator.random(len(of)), of)) for _ in range(permutations))
                permuted = np.array([label[some][order] for order in orders])
                pair, drawn = self._of_pairs(view, sums[some], label[some], of, permuted, noise)
                order = np.argsort(pair, kind="stable")
                first = np.flatnonzero(np.diff(pair[order], prepend=-1))
                found[:, pair[order][first]] += np.add.reduceat(drawn[:, order], first, axis=1)
        return found

    def _of_pairs(
        self, view: int, sums: Array, label: Ints, group: Ints, permuted: Ints,
        generator: np.random.Generator, ratio: Array | None = None,
    ) -> tuple[Ints, Array]:  # fmt: skip
        """Return pairs of a group of units and a label: labels `[N]`, sums `[permutations, N, M]`.

        Units `[U]` exchange labels within their group. `permuted` `[permutations, U]` are their labels.
        `ratio` is that of `with_own_tokens`.
        """
        from scipy.sparse import coo_array  # slow to import

        key = group * (int(label.max()) + 1)
        pairs, of_unit = np.unique(key + label, return_inverse=True)
        permutations, number = len(permuted), len(pairs)
        cell = pairs.searchsorted(key + permuted) + np.arange(permutations)[:, np.newaxis] * number
        unit = np.tile(np.arange(len(sums)), permutations)
        ones = coo_array(
            (np.ones(cell.size, np.float32), (cell.ravel(), unit)), shape=(permutations * number, len(sums))
        ).tocsr()
        drawn = (ones @ sums).reshape(permutations, number, -1)
        tokens: Array = np.bincount(of_unit, sums.sum(axis=1)).astype(np.float64)
        of_group = np.unique(group, return_inverse=True)[1]
        total = sum_rows(sums, of_group, int(of_group[-1]) + 1)
        mean = (total / np.maximum(total.sum(axis=1, keepdims=True), TINY))[of_group]
        mean = mean[np.unique(of_unit, return_index=True)[1]]
        labels, weight = pairs % (int(label.max()) + 1), self._weight(view)
        inside = _variance_inside(sums, weight)
        return labels, with_own_tokens(drawn, tokens, mean, weight, generator, ratio, inside)


def _unevenness(label: Ints, length: Array, number: int) -> Array:
    """Return the sum of squared lengths of each label's units, over the square of their sum, `[number]`."""
    squares, sums = (np.bincount(label, each, number) for each in (length**2, length))
    return np.asarray(squares / np.maximum(sums, TINY) ** 2)


def _variance_inside(sums: Array, weight: float) -> float:
    """Return the variance of a token within its unit, from sums of units `[U, M]`; infinity if unknown."""
    length = sums.sum(axis=1, dtype=np.float64)
    several = length > 1.5
    if not several.any():
        return np.inf
    length, shares = length[several], sums[several] / length[several, np.newaxis]
    variance = (weight - (shares.astype(np.float64) ** 2).sum(axis=1)) * length / (length - 1)
    return float(max(np.average(variance, weights=length), 0.0))


def with_own_tokens(
    sums: Array, own: Array, mean: Array, weight: float, generator: np.random.Generator,
    ratio: Array | None = None, inside: float = np.inf,
) -> Array:  # fmt: skip
    """Return sums under permuted labels whose rows have as many tokens as the labels do in the data.

    Units differ in length, so permuting gives a label of short units too many tokens, and its row too little
    noise: too low a chance level. So a label with n < t tokens gets a sample of n of its t tokens. If its
    sums are not counts, its shares get noise of variance v (1/n - 1/t), that of a multinomial distribution.
    The variance of a share over t tokens is the variance between units and v/t. So the row of a label with
    n > t tokens is moved towards the mean, by the part of its variance that is too much. The variance between
    units is larger the more their lengths differ, and those of one label may differ less than those of all:
    it is scaled by `ratio`.

    Args:
        sums: `[permutations, R, M]`.
        own: the tokens of the labels `[R]`.
        mean: the shares `[R, M]` that the rows have on average.
        weight: the mean over tokens of the sum of their squared weights.
        ratio: how much the lengths of each label's units differ, compared with permuted units `[R]`, see
            `Units._ratio`; by default 1.
        inside: the variance of a token within its unit, if it is known. If it is 0, only rows are scaled.
    """
    tokens = sums.sum(axis=2, keepdims=True, dtype=np.float64)
    own = np.broadcast_to(own[:, np.newaxis], tokens.shape)
    if not len(sums) or np.allclose(tokens, own, rtol=1e-5):
        return sums
    shares = np.where(tokens > 0, sums / np.maximum(tokens, TINY), mean)
    multinomial = 1.0 - (mean**2).sum(axis=1, keepdims=True)  # the variance v of a token of weight 1
    variance = np.minimum(np.maximum(weight - 1.0 + multinomial, 0.0), inside)
    if inside < PURE:
        return shares * own
    some = tokens > 0  # a label may have none in a draw from the limit
    inverse = np.where(some, 1 / np.maximum(tokens, TINY), 0.0).sum(axis=0) / np.maximum(some.sum(axis=0), 1)
    within = variance * inverse  # at t tokens
    spread = ((shares - mean) ** 2).sum(axis=2, keepdims=True).mean(axis=0)
    between = np.maximum(spread - within, 0.0) * (1.0 if ratio is None else ratio[:, np.newaxis])
    factor = (between + within) / np.maximum(spread, within + TINY)
    is_scaled = np.abs(factor - 1.0) > 0.05
    shares = np.where(is_scaled, np.maximum(mean + np.sqrt(factor) * (shares - mean), 0.0), shares)
    shares /= shares.sum(axis=2, keepdims=True)
    wanted, drawn = (between + variance / np.maximum(some, TINY) for some in (own, tokens))
    kept = np.clip(wanted / np.maximum(drawn, TINY), tokens / np.maximum(own, TINY), 1)
    result = mean + np.sqrt(kept) * (shares - mean)
    few = (tokens > own * (1 + 1e-5))[..., 0]
    counts, size = sums[few] / weight, np.rint(own[few][:, 0] / weight).astype(np.int64)
    whole = np.rint(counts).astype(np.int64)
    if not is_scaled.any() and (np.abs(counts - whole) < 1e-3).all():
        result[few] = _sample(whole, size, generator) / np.maximum(size, 1)[:, np.newaxis]
    else:
        drawn = 1 / (1 / own[few] - 1 / tokens[few])
        number = np.floor(drawn + 1e-6)
        shown = np.maximum(shares[few].astype(np.float64), 0.0)
        shown /= shown.sum(axis=1, keepdims=True) * (1 + 1e-9)  # at most 1 in all, whatever the rounding
        noise = generator.multinomial(number[:, 0].astype(np.int64), shown) / number
        scale = np.broadcast_to(variance / (multinomial + 1e-9), tokens.shape)[few] * number / drawn
        result[few] = shown + np.sqrt(scale) * (noise - shown)
    return np.maximum(result, 0.0) * own


def _sample(counts: Ints, size: Ints, generator: np.random.Generator) -> Ints:
    """Return `size` `[N]` of the things that are counted in each row `[N, M]`, without replacement."""
    drawn, others, missing = np.zeros_like(counts), counts.sum(axis=1), size.copy()
    for column, good in enumerate(counts.T):
        rows = np.flatnonzero(good)  # few: most cells are empty
        others[rows] -= good[rows]
        drawn[rows, column] = generator.hypergeometric(good[rows], others[rows], missing[rows])
        missing[rows] -= drawn[rows, column]
    return drawn


def draw_from_limit(
    mean: Array, variance: Array, covariance: Array, weights: Array | Ints, permutations: int,
    generator: np.random.Generator,
) -> Array:  # fmt: skip
    """Draw `[permutations, R, M]` sums of the activations of R labels.

    Independent normal Z_r have too much freedom: their sum over labels must equal the sum over all tokens. So
    each label gives back its share of the excess. A cell whose mean is below four standard deviations is not
    normal, because few tokens contribute to it. It is drawn as a Poisson number of steps; the size of a step
    is set to match the variance. Rows and columns are then scaled to their sums again. With two tokens per
    cell, the mutual information by chance has an error of a few percent for hard assignment, and of 1/7 for
    very unequal gate mass.

    Args:
        mean, variance: `[R, M]`, the mean and variance of every sum.
        covariance: `[M, M]`, how modules vary together, scaled by the labels' `weights`. If its diagonal
            differs from `variance`, cells are scaled. If all units have the same number of tokens, each row
            keeps the sum of its mean.
        weights: `[R]`, the factors of `covariance` for each label.
    """
    same_length = covariance.sum() <= 1e-6 * np.trace(covariance)
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
    rows = np.maximum(rows + (0.0 if same_length else noise.sum(axis=2, keepdims=True)), 0.0)
    noise += mean
    few = (mean**2 < 16.0 * variance) & (mean > 0)
    free = variance / np.maximum(1.0 - share, 1e-9)[:, np.newaxis]  # scaling columns reduces it again
    step = free[few] / mean[few]
    for one in noise:  # one by one: all at once is slow, because it needs more memory
        one[few] = step * generator.poisson(mean[few] / step)
    return _fitted(np.maximum(noise, 0.0, out=noise), mean, rows)


def _fitted(drawn: Array, mean: Array, rows: Array) -> Array:
    """Scale draws `[permutations, R, M]` until their columns have the sums of `mean` `[R, M]`, and their rows
    these sums."""
    columns = mean.sum(axis=0, keepdims=True)
    for _ in range(4):
        for axis, wanted in ((1, columns), (2, rows)):
            sums = drawn.sum(axis=axis, keepdims=True)
            if not (sums > 0).all():  # a row or column without any event gets its mean
                drawn = np.where(sums > 0, drawn, mean)
                sums = drawn.sum(axis=axis, keepdims=True)
            drawn *= np.divide(wanted, sums, out=np.ones_like(sums), where=sums > 0)
    return drawn
