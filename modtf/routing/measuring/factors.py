"""Information that experts carry about token, position and domain, alone and beyond the others."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from modtf.base.checks import check_integer
from modtf.metrics.distributions import Array
from modtf.routing.measuring.compare import check_compared
from modtf.routing.measuring.damage import measured_layers
from modtf.routing.measuring.layers import Experts, Ints, choices_of, layers_of
from modtf.routing.measuring.summarise import Progress
from modtf.routing.measuring.tokens import MOST_TOKENS, Numbers, dealt, drawn_tokens

MOST_PERMUTATIONS = 1_000
SATURATED = 0.9  # if permuted factors reach this share of the possible information, tokens are too few


@dataclass(frozen=True)
class Factor:
    """The information that the experts of one layer carry about one factor.

    Attributes:
        layer: the layer's number, from 0.
        factor: the factor's name.
        marginal: I(expert; factor), as a share of the largest possible information, corrected for chance: 0
            on average if the factor carries no information, 1 if it determines the expert.
        beyond: the same for I(expert; factor | all other factors).
        marginal_chance, beyond_chance: half the width of the interval that holds the value of a further
            permutation in 95% of cases (Student's t); smaller values are within chance. These and the values
            are NaN if too few tokens are alike in the other factors.
    """

    layer: int
    factor: str
    marginal: float
    marginal_chance: float
    beyond: float
    beyond_chance: float


def measure_factors(
    factors: Mapping[str, ArrayLike],
    activations: Any = None,
    *,
    experts: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    num_experts: int | None = None,
    documents: ArrayLike | None = None,
    from_logits: bool = False,
    top_k: int | None = None,
    permutations: int = 10,
    seed: int = 0,
    progress: Progress = iter,
) -> list[Factor]:
    """Measure what routing follows: the token, its position, or the domain of its text.

    The information is computed from the chosen experts; every choice of a token counts the same. Few tokens
    overestimate it, so the value under permuted factors is subtracted. A factor is permuted among the tokens
    that are alike in all other factors. Tokens of a document are not independent: factors come in runs, such
    as chat turns, and documents have topics. So documents also exchange their factors as a whole, each from a
    random token on. What these carry about the experts beyond the permutation counts as chance, too. Without
    `documents` tokens are taken as independent. One document cannot show whether experts follow its position
    or only change in its course: the shares of its positions are too small.

    Args:
        factors: name -> integers from 0, or names, `[tokens]`; at least two.
        activations, experts, weights, num_experts, documents, from_logits, top_k: as for
            `measure_activations`. A choice of weight 0 does not count. At most 32,768 tokens are used, from
            documents drawn at random; long ones give a stretch. Layers whose rows are all equal are left out.
        permutations: how often factors are permuted, 2 to 1,000.
        seed: the seed of the permutations, and of the drawn documents.
        progress: wraps the layers while they are measured, for example `tqdm`.

    Returns:
        One `Factor` per layer and factor.

    Raises:
        ValueError: if an argument is invalid.

    Example:
        >>> token, position = np.arange(4000) % 2, np.arange(4000) // 2 % 2
        >>> either = (token ^ position)[:, np.newaxis]  # neither carries information alone
        >>> factors = {"token": token, "position": position}
        >>> [round(factor.beyond, 2) for factor in measure_factors(factors, experts=either, num_experts=2)]
        [1.0, 1.0]

    Source of the correction: see `modtf.routing.measuring.estimates.estimates`.
    """
    check_compared("factors", factors, seed, progress)
    if experts is not None:
        activations = Experts(experts, num_experts, weights)
    layers = layers_of(activations, from_logits, top_k)
    check_integer("permutations", permutations, 2, MOST_PERMUTATIONS)
    num_tokens, generator = len(layers[0]), np.random.default_rng(seed)
    number = np.arange(num_tokens)  # without documents each token is its own
    if documents is not None:
        number = Numbers("documents").assign(documents, num_tokens)
    some = drawn_tokens(number, MOST_TOKENS, seed)
    columns = [_joint(Numbers(name).assign(one, num_tokens)[some]) for name, one in factors.items()]
    within = _joint(number[some])
    nothing, single = np.zeros(len(some), np.int64), np.arange(len(some))
    asked = []
    for column in columns:
        others = _joint(*[other for other in columns if other is not column])
        pairs = (column, nothing, within), (others, nothing, single), (column, others, within)
        asked.append([_Question(*pair, permutations, generator) for pair in pairs])
    results = []
    for place in progress(measured_layers(layers, some)):
        layer = layers[place]
        sent = choices_of(layer, some)
        for name, questions in zip(factors, asked, strict=True):
            information, by_others, share = (_information(sent, question) for question in questions)
            results.append(
                Factor(place, name, *information.tolist(), *((1.0 - by_others[0]) * share).tolist())
            )
    return results


class _Question:
    """Cells of tokens that are alike in `factor` and `given`, for the data and for permuted factors.

    They are the same for all layers. `within` has the factor permuted among tokens that are alike in `given`.
    `dealt` has it exchanged by documents, and the same factors permuted like that, too: what the first carry
    more than the second is chance that runs and documents add.
    """

    def __init__(self, factor: Ints, given: Ints, documents: Ints, runs: int, generator: np.random.Generator):
        self.given, self.joint = given, _joint(factor, given)

        def permuted(values: Ints) -> Ints:
            order = np.lexsort((generator.random(len(values)), given))
            within = np.empty_like(values)
            within[np.argsort(given, kind="stable")] = values[order]
            return _joint(within, given)

        self.within = [permuted(factor) for _ in range(runs)]
        several = documents.max() + 1 < len(documents)  # tokens in a document
        exchanged = [dealt(factor, documents, generator) for _ in range(runs * several)]
        self.dealt = [(_joint(values, given), permuted(values)) for values in exchanged]


def _information(sent: tuple[Ints, Ints], asked: _Question) -> Array:
    """Return I(expert; factor | given) corrected for chance, and its limit under permutation.

    Both are shares of the possible information, H(expert | given) - H(expert | the single token).
    """
    from scipy.special import stdtrit  # slow to import

    plain, choices = _left(sent, asked.given), np.bincount(sent[0])[sent[0]]
    most = plain - float(np.log2(choices).mean())
    if most < 1e-9:
        return np.zeros(2)
    chance = plain - np.array([_left(sent, cell) for cell in asked.within])
    base, spread = float(chance.mean()), chance.std(ddof=1)
    if base > SATURATED * most:
        return np.full(2, np.nan)
    if asked.dealt:
        both = np.array([[_left(sent, cell) for cell in pair] for pair in asked.dealt])
        base += float((both[:, 1] - both[:, 0]).mean())
        spread = max(spread, both[:, 0].std(ddof=1))
    limit = stdtrit(len(chance) - 1, 0.975) * np.sqrt(1.0 + 1.0 / len(chance)) * spread
    information = np.array([plain - _left(sent, asked.joint) - base, limit]) / (most - base)
    return np.asarray(information.round(12))  # equal cells in another order differ by rounding


def _left(sent: tuple[Ints, Ints], cell: Ints) -> float:
    """Return H(expert | cell), in bits."""
    token, expert = sent
    of_choice, number = cell[token], int(expert.max()) + 1
    small = (int(of_choice.max()) + 1) * number < 2**31  # int32 sorts twice as fast
    both = np.sort((of_choice * number + expert).astype(np.int32 if small else np.int64))
    edges = np.flatnonzero(np.concatenate([[True], both[1:] != both[:-1], [True]]))
    return (_surprise(np.bincount(of_choice)) - _surprise(np.diff(edges))) / len(both)


def _surprise(counts: Ints) -> float:
    """Return sum n log2 n."""
    return float((counts * np.log2(np.maximum(counts, 1))).sum())


def _joint(*columns: Ints) -> Ints:
    """Return one number, from 0, for each combination that occurs."""
    joint = columns[0]
    for column in columns[1:]:
        joint = np.unique(joint, return_inverse=True)[1] * (column.max() + 1) + column
    return np.asarray(np.unique(joint, return_inverse=True)[1], np.int64)
