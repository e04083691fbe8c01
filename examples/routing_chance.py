"""Routers that know nothing of the text, and what they score on published measures of specialisation.

`routing_claims.py` sets these scores beside the published numbers. Every function simulates one router and
returns its score. An even router chooses all experts equally often. A router with loads prefers some
experts, whatever the token is: `spread` is the standard deviation of these preferences in log-odds. Neither
knows the token, its neighbours or its label.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array, Ints = NDArray[np.float64], NDArray[np.int64]
Random = np.random.Generator


def choose(random: Random, tokens: int, experts: int, k: int, preferred: Array | float = 0.0) -> Ints:
    """Return the k experts `[tokens, k]` that the router chooses, best first."""
    return np.argsort(-(preferred + random.gumbel(size=(tokens, experts))), axis=1)[:, :k]


def most_used(random: Random, counts: Array | Ints, size: int) -> set[int]:
    """Return the `size` experts with the largest counts; ties are broken at random."""
    return set(np.argsort(-(counts + 0.5 * random.random(len(counts))))[:size].tolist())


def jaccard(sets: list[set[int]]) -> float:
    """Return the mean Jaccard similarity of all pairs of sets."""
    return float(np.mean([len(a & b) / len(a | b) for i, a in enumerate(sets) for b in sets[:i]]))


def beta_loads(random: Random, mean: float, deviation: float, size: int) -> Array:
    """Return the share of tokens that activate an expert, for `size` experts."""
    total = mean * (1 - mean) / deviation**2 - 1
    return random.beta(mean * total, (1 - mean) * total, size=size)


def repeats(
    random: Random, experts: int, k: int, first: int, spread: float = 0.0, tokens: int = 20_000
) -> float:
    """Return the share of tokens that share one of their `first` choices with the next token."""
    chosen = choose(random, tokens, experts, k, spread * random.normal(size=experts))[:, :first]
    return float((chosen[1:, :, np.newaxis] == chosen[:-1, np.newaxis]).any(axis=(1, 2)).mean())


def kept(random: Random, experts: int, k: int, spread: float = 0.0, tokens: int = 2_000) -> float:
    """Return the share of a token's experts that another token also has, which any guess by loads finds."""
    preferred = spread * random.normal(size=experts)
    one, two = (choose(random, tokens, experts, k, preferred) for _ in range(2))
    return float((one[:, :, np.newaxis] == two[:, np.newaxis]).any(axis=2).mean())


def segment_f1(random: Random, mean: float, deviation: float, length: int = 16) -> float:
    """Return segment routing best performance (SRP) for loads with this mean and standard deviation.

    The best segment router predicts an expert for the whole segment if at least `a` of the segment's tokens
    activate it. SRP is the F1 score at the best `a`.
    """
    active = random.binomial(length, beta_loads(random, mean, deviation, size=50_000))
    segments = np.bincount(active, minlength=length + 1)
    hits = np.cumsum((segments * np.arange(length + 1))[::-1])[::-1]
    predicted = length * np.cumsum(segments[::-1])[::-1]
    return float((2 * hits / (predicted + hits[0])).max())


def uneven_loads(random: Random, experts: int, gini: float) -> Array:
    """Return log-normal shares of all tokens with this Gini coefficient: 0 for an even router."""
    loads = np.exp(np.sqrt(2) * stats.norm.ppf((1 + gini) / 2) * random.normal(size=experts))
    return loads / loads.sum()


def committee(
    random: Random, experts: int, size: int, gini: float, domains: int, prompts: int, layers: int
) -> float:
    """Return the similarity of the most used experts of several domains, as the mean over layers.

    Every prompt counts for one expert. `gini`: see `uneven_loads`.
    """
    found = []
    for _ in range(layers):
        counts = random.multinomial(prompts, uneven_loads(random, experts, gini), size=domains)
        found.append(jaccard([most_used(random, count, size) for count in counts]))
    return float(np.mean(found))


def largest(random: Random, experts: int, size: int, prompts: int, gini: float = 0.0) -> float:
    """Return the share of prompts that the `size` most used experts take. `gini`: see `uneven_loads`."""
    counts = random.multinomial(prompts, uneven_loads(random, experts, gini))
    return float(np.sort(counts)[-size:].sum() / prompts)


def accuracy(random: Random, experts: int, k: int) -> float:
    """Return the accuracy, over all experts, of predicting that no expert is active."""
    del random
    return 1 - k / experts


def cached(random: Random, experts: int, k: int, size: int, tokens: int = 1_000) -> float:
    """Return the hit rate of a cache of `size` experts that drops the least recently used."""
    cache: list[int] = []
    hits = 0
    for row in choose(random, tokens, experts, k).tolist():
        hits += len(set(row) & set(cache))
        cache = (row + [expert for expert in cache if expert not in row])[:size]
    return hits / (tokens * k)


def guessed(random: Random, labels: int, samples: int) -> float:
    """Return the accuracy of guessing balanced labels."""
    truth = np.arange(samples) % labels
    return float((random.integers(labels, size=samples) == truth).mean())


def rate_change(random: Random, share: float, prompts: int) -> float:
    """Return the difference of two rates over `prompts` prompts whose true rates are equal."""
    one, two = random.binomial(prompts, share, size=2)
    return float(one - two) / prompts
