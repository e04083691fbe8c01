"""The choices of single tokens, for measures that need more than sums over labels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from modtf.base.checks import check_callable, check_integer
from modtf.routing.measuring.checks import Ints, Numbers, as_layers
from modtf.routing.measuring.experts import ChosenExperts, Experts
from modtf.routing.measuring.gates import Gates

Layer = Gates | ChosenExperts
MOST_TOKENS = 2**15  # limit on the sampled tokens; with so many, the sampling noise is negligible
STRETCHES = 64  # stretches of tokens that stand for documents if there are neither documents nor labels
SHORT = 8  # runs and stretches that are shorter on average do not stand for documents


def choices_of(layer: Layer, some: Ints) -> tuple[Ints, Ints]:
    """Return the token `[N]` and expert `[N]` of each choice of the tokens `some`, renumbered from 0."""
    tokens = layer.read(some)[1]
    token, choice = np.nonzero(tokens.weights)
    assert tokens.modules is not None  # hard assignment always has them
    return token, tokens.modules[token, choice]


def layers_of(activations: Any, from_logits: bool, top_k: int | None) -> Sequence[Layer]:
    """Return the layers of activations as in `modtf.measure_activations`, except for chunks."""
    if isinstance(activations, Experts):
        return activations.layers
    if not isinstance(from_logits, bool | np.bool_):
        raise ValueError(f"from_logits={from_logits!r} is not valid; expected True or False.")
    layers = as_layers(activations)
    if from_logits and (kinds := [str(one.dtype) for one in layers if one.dtype.kind != "f"]):
        raise ValueError(
            f"logits are of type {kinds[0]}; expected floating-point numbers. Give the numbers of chosen "
            "experts as experts=.... Decode bfloat16 that was saved as 16-bit integers: "
            "(values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)."
        )
    fewest = min(values.shape[1] for values in layers)
    if top_k is not None and check_integer("top_k", top_k, 1) > fewest:
        raise ValueError(f"top_k={top_k} is not valid; expected at most {fewest}, the number of modules.")
    return [Gates(values, from_logits, top_k) for values in layers]


def check_compared(name: str, value: Any, seed: int, progress: Any) -> None:
    """Raise `ValueError` unless `value` maps two or more names, and seed and progress are valid."""
    if not isinstance(value, Mapping) or len(value) < 2:
        received = ", ".join(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
        raise ValueError(
            f"{name} is {received or 'empty'}; expected a dict of at least two by name, to compare."
        )
    check_integer("seed", seed, 0)
    check_callable("progress", progress)


def whole_documents(documents: ArrayLike | None, num_tokens: int, seed: int) -> tuple[Ints, Ints]:
    """Return the tokens of randomly drawn documents, and the document of each of these tokens.

    The number of tokens is at most `MOST_TOKENS`, unless the first drawn document has more. Without documents
    each token is its own document.
    """
    number = np.arange(num_tokens) if documents is None else Numbers("documents").of(documents, num_tokens)
    _, inverse, counts = np.unique(number, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(counts))
    fits = max(int((counts[order].cumsum() <= MOST_TOKENS).sum()), 1)
    some = np.flatnonzero(np.isin(inverse, order[:fits]))
    return some, number[some]


def compared_tokens(
    documents: ArrayLike | None, labels: ArrayLike | None, num_tokens: int, seed: int
) -> tuple[Ints, Ints, tuple[str, ...]]:
    """Return tokens `[S]` as `whole_documents`, their documents `[S]`, and a warning if these are assumed.

    Without documents single tokens are drawn, because few of the long stretches fit into `MOST_TOKENS`.
    """
    if documents is not None:
        return *whole_documents(documents, num_tokens, seed), ()
    of_tokens = None if labels is None else Numbers("labels").of(labels, num_tokens)
    assumed, note = assumed_documents(of_tokens, num_tokens)
    generator = np.random.default_rng(seed)
    some = np.sort(generator.choice(num_tokens, min(num_tokens, MOST_TOKENS), replace=False))
    return some, assumed[some], (note,)


def assumed_documents(labels: Ints | None, num_tokens: int) -> tuple[Ints, str]:
    """Return what stands for the documents of tokens, from 0 `[tokens]`, if there are none, and a note.

    Runs of tokens of one label do, or stretches of consecutive tokens if runs are short or there is at most
    one label.
    """
    if labels is not None:
        runs = np.cumsum(np.diff(labels, prepend=labels[0]) != 0)
        if runs[-1] > 0 and (runs[-1] + 1) * SHORT <= num_tokens:
            return runs, "There are no documents. Runs of tokens of one label stand for them."
    stretches = np.arange(num_tokens) * min(STRETCHES, max(num_tokens // SHORT, 1)) // num_tokens
    number = stretches[-1] + 1
    return stretches, f"There are no documents. {number} stretches of consecutive tokens stand for them."


def dealt(values: Ints, documents: Ints, generator: np.random.Generator) -> Ints:
    """Return the values of another document for each document, from a random token on and around its end.

    So values that are constant within documents stay so, runs stay runs, and topics stay in one document. If
    each token is a document of its own, the values are permuted.
    """
    number = np.unique(documents, return_inverse=True)[1]
    order, sizes = np.argsort(number, kind="stable"), np.bincount(number)
    starts, other, of = np.cumsum(sizes) - sizes, generator.permutation(len(sizes)), number[order]
    places = np.arange(len(order)) - starts[of] + generator.integers(sizes[other])[of]
    exchanged = np.empty_like(values)
    exchanged[order] = values[order][starts[other][of] + places % sizes[other][of]]
    return exchanged


def paired(documents: Ints, generator: np.random.Generator) -> Ints:
    """Return a random token of another document for every token `[T]`; documents are sorted from 0.

    All tokens of a document get tokens of one other document. A single document gets its tokens permuted.
    """
    sizes = np.bincount(documents)
    if len(sizes) == 1:
        return generator.permutation(len(documents))
    order = generator.permutation(len(sizes))
    other = np.empty_like(order)
    other[order] = np.roll(order, 1)
    partner = other[documents]
    starts = np.cumsum(sizes) - sizes
    return np.asarray(starts[partner] + (generator.random(len(documents)) * sizes[partner]).astype(np.int64))
