"""Every choice of some tokens, for what needs the tokens themselves and not only sums over labels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from modtf.checks import check_integer
from modtf.routing.measuring.checks import Ints, Numbers, as_layers
from modtf.routing.measuring.experts import ChosenExperts, Experts
from modtf.routing.measuring.gates import Gates

Layer = Gates | ChosenExperts
MOST_TOKENS = 2**15  # that are looked at, of whole documents: of these the noise is far below what matters


def choices_of(layer: Layer, some: Ints) -> tuple[Ints, Ints]:
    """Return the token `[N]` and expert `[N]` of each choice of some tokens, which count from 0."""
    tokens = layer.read(some)[1]
    token, choice = np.nonzero(tokens.weights)
    assert tokens.modules is not None  # of chosen ones, always
    return token, tokens.modules[token, choice]


def layers_of(activations: Any, from_logits: bool, top_k: int | None) -> Sequence[Layer]:
    """Return the layers of what `modtf.measure_activations` takes, except for chunks."""
    if isinstance(activations, Experts):
        return activations.layers
    layers = as_layers(activations)
    fewest = min(values.shape[1] for values in layers)
    if top_k is not None and check_integer("top_k", top_k, 1) > fewest:
        raise ValueError(f"top_k={top_k}, but there are only {fewest} modules.")
    return [Gates(values, from_logits, top_k) for values in layers]


def check_compared(name: str, value: Any, seed: int) -> None:
    """Raise `ValueError` unless `value` is two or more things by name, and the seed is one."""
    if not isinstance(value, Mapping) or len(value) < 2:
        received = ", ".join(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
        raise ValueError(f"{name} are {received or 'none'}; expected two or more by name, to compare.")
    check_integer("seed", seed, 0)


def whole_documents(documents: ArrayLike | None, num_tokens: int, seed: int) -> tuple[Ints, Ints]:
    """Return tokens of documents that are drawn at random, and the documents of these.

    There are up to `MOST_TOKENS`, unless one document has more. Without documents each token is one.
    """
    number = np.arange(num_tokens) if documents is None else Numbers("documents").of(documents, num_tokens)
    _, inverse, counts = np.unique(number, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(counts))
    fits = max(int((counts[order].cumsum() <= MOST_TOKENS).sum()), 1)
    some = np.flatnonzero(np.isin(inverse, order[:fits]))
    return some, number[some]
