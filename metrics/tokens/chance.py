"""What would be measured if modules knew nothing of labels: the same tokens, their labels permuted.

While there are few enough tokens to keep them, labels are permuted. Of more tokens the matrices under
permuted labels are drawn from their limit. The n_r tokens of a label are a sample without replacement from
all N, so the sums of their activations, S_r [M], have mean n_r a and covariances
(n_r [r = r'] - n_r n_r' / N) N/(N-1) C, with a and C the mean and the covariance of the activations of all
tokens; a sum over many tokens is normal. No token needs to be kept for that.
"""

import numpy as np

from modtf.metrics.distributions import Array
from modtf.metrics.tokens.checks import Ints
from modtf.metrics.tokens.gates import hard_assignment
from modtf.metrics.tokens.sums import Sums, sum_rows

NUM_PERMUTATIONS = 100


def chance_matrices(
    sums: Sums,
    layer: int,
    label_ids: Ints,
    top_k: int | None,
    permutations: int,
    seed: int,
    exact: bool | None = None,
) -> Array:
    """Activation matrices of a layer under permuted labels, `[2, permutations, R, M]`; first axis as BY.

    Args:
        sums: of the tokens.
        layer: its number.
        label_ids: the labels seen, `[R]`.
        top_k: modules per token, for the hard assignment.
        permutations: how many.
        seed: of the permutations, the same for all layers.
        exact: whether to permute (else draw from the limit); None: while the tokens are there.
    """
    generator = np.random.default_rng(seed)
    counts = sums.counts.sum(axis=0)[label_ids]
    if sums.mass is None or exact is False:
        return np.stack(
            [
                _from_limit(groups[layer].sum(axis=(0, 1)), moments[layer], counts, permutations, generator)
                for groups, moments in zip(sums.groups, sums.moments, strict=True)
            ]
        )
    mass = np.concatenate([part[layer] for part in sums.mass]).astype(np.float64)
    tokens = mass, hard_assignment(mass, top_k)
    labels, num_labels = np.concatenate(sums.labels), sums.counts.shape[1]
    made = np.zeros((2, permutations, len(label_ids), mass.shape[1]))
    for number in range(permutations):
        permuted = generator.permutation(labels)
        for by, rows in enumerate(tokens):
            made[by, number] = sum_rows(rows, permuted, num_labels)[label_ids]
    return made / counts[:, np.newaxis]


def _from_limit(
    total: Array, moments: Array, counts: Ints, permutations: int, generator: np.random.Generator
) -> Array:
    """Draws `[permutations, R, M]` of the limit in the module's docstring.

    Sums of independent normal Z_r have too much freedom: they must add up to that of all tokens, so each
    label gives back its share, n_r / N, of what they exceed it by. A cell whose mean is less than four
    standard deviations is not normal: few tokens make it up. There it is a Poisson number of steps, as large
    as gives it its variance (1/k, about, where tokens are sent to k modules), and rows and columns are scaled
    to their sums again. With two tokens a cell the mutual information by chance is right to a few percent for
    hard assignment, and to a seventh for very unequal gate mass.
    """
    num_tokens = counts.sum()
    mean = np.outer(counts, total) / num_tokens
    covariance = moments / num_tokens - np.outer(total, total) / num_tokens**2
    covariance *= num_tokens / max(num_tokens - 1, 1)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    noise = generator.standard_normal((permutations, *mean.shape)) @ root.T
    noise *= np.sqrt(counts)[:, np.newaxis]
    noise -= (counts / num_tokens)[:, np.newaxis] * noise.sum(axis=1, keepdims=True)
    drawn = mean + noise
    variance = np.outer(counts, np.maximum(np.diag(covariance), 0.0))
    few = mean**2 < 16.0 * variance
    step = variance[few] / mean[few]
    drawn[:, few] = step * generator.poisson(mean[few] / step, size=(permutations, few.sum()))
    return _with_margins(np.maximum(drawn, 0.0), mean) / counts[:, np.newaxis]


def _with_margins(drawn: Array, mean: Array) -> Array:
    """`drawn [..., R, M]` with columns and rows scaled, in turns, to the sums that `mean [R, M]` has."""
    for axis in (-2, -1) * 4:
        wanted, sums = mean.sum(axis=axis, keepdims=True), drawn.sum(axis=axis, keepdims=True)
        drawn = np.where(sums > 0, drawn, mean)  # a row or column without any event: as expected
        sums = np.where(sums > 0, sums, wanted)
        drawn = drawn * np.divide(wanted, sums, out=np.ones_like(sums), where=sums > 0)
    return drawn
