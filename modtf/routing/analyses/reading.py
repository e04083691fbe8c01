"""Read the choices of tokens from a routing, for all analyses."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.analyses.choices import Choices
from modtf.routing.counted import Counted
from modtf.routing.labelling import Classes, frequent_tokens
from modtf.routing.measuring.layers import NONE, ExpertLayer, Ints, Layer
from modtf.routing.measuring.summarise import Progress
from modtf.routing.measuring.tokens import SLICE, assumed_documents, drawn_documents
from modtf.routing.measuring.watch import ONE_ASSUMED, Watch, assumes_one, left_out
from modtf.routing.names import Names
from modtf.routing.routing import Routing

MOST_CHOICES = 2**26  # limit on the choices in memory: 128 MiB for fewer than 2^15 experts
UNKNOWN_TOP_K = (
    "The number k of experts per token is unknown, so each choice counts as a token. If k is above 1, shares "
    "of tokens are too small and chance bands too wide. Give --top_k=K (top_k=K)."
)
SINGLE = 0.1  # share of tokens that are the only one of their document, from which on this is noted


def read_choices(
    routing: Routing,
    *,
    seed: int = 0,
    against: Routing | None = None,
    progress: Progress = iter,
) -> Choices:
    """Return the choices of a routing.

    If there are more than 2^26 choices, whole documents are drawn at random until these would be exceeded.

    Args:
        routing: from `modtf.read_routing`.
        seed: the seed of the drawn documents.
        against: the same tokens as another checkpoint routed them.
        progress: wraps the layers while they are read.

    Raises:
        ValueError: if activations are invalid, or `against` has other tokens.
    """
    if against is not None:
        _check_same_tokens(against, routing)
    if isinstance(routing.activations, Counted):
        return _choices_of_counts(routing, routing.activations)
    documents, known, notes = _documents(routing)
    order, drawn = _sampled(documents, len(routing.layers) * (routing.layers[0].top_k or 1), seed)
    if drawn:
        notes.append(drawn)
    single = np.bincount(documents) == 1
    if SINGLE * len(documents) <= single.sum() < len(documents):
        notes.append(
            f"{single.sum()} of {len(single)} documents have one token. They stay as they are when tokens "
            "are permuted within documents, so effects look smaller than they are."
        )
    chosen = _chosen(routing, order, progress)
    if chosen["assumes_one"]:
        notes.append(ONE_ASSUMED)
    factors = {name: values[order] for name, values in routing.factors.items()}
    domains = domains_of(routing)
    labels = None if domains is None else domains[order]
    found = Choices(
        **chosen,
        sums=None,
        documents=np.unique(documents[order], return_inverse=True)[1],
        has_documents=known,
        labels=labels,
        spans=None if routing.spans is None else routing.spans[order],
        token_ids=factors.get("token"),
        predicted_ids=None if routing.predicted is None else routing.predicted[order],
        names=routing.names if labels is not None else Names(None, routing.names.layers),
        words=routing.words,
        notes=tuple(notes),
    )
    if against is None:
        return found
    names = Names(found.names.labels, against.names.layers)
    chosen = _chosen(against, order, iter)
    return replace(found, against=replace(found, names=names, **chosen))


def _chosen(routing: Routing, order: Ints, progress: Progress) -> dict[str, Any]:
    """Return the attributes of `Choices` that say what the router chose, for the tokens in `order`."""
    number, k = len(routing.expert_numbers), routing.layers[0].top_k
    experts = np.empty((len(routing.layers), len(order), k or 1), np.int16 if number < 2**15 else np.int32)
    watches = [Watch(place) for place in range(len(experts))]
    for watch, layer, chosen in zip(watches, progress(routing.layers), experts, strict=True):
        for start in range(0, len(order), SLICE):
            some = order[start : start + SLICE]
            watch.add(layer, some, start)
            chosen[start : start + SLICE] = ordered_choices(layer, some, start)
    skipped, first = left_out(watches), routing.layers[0]
    kept = [place for place in range(len(watches)) if place not in skipped]
    return {
        "layers": tuple(kept),
        "num_experts": number,
        "expert_numbers": routing.expert_numbers,
        "top_k": experts.shape[2],
        "assumes_one": k is None and assumes_one(watches),
        "experts": experts[kept] if skipped else experts,
        "ranked": not isinstance(first, ExpertLayer) or first.weights is not None,
    }


def _check_same_tokens(against: Routing, routing: Routing) -> None:
    if against.num_tokens != routing.num_tokens or not against.has_tokens or not routing.has_tokens:
        raise ValueError(
            f"against has {against.num_tokens} tokens and routing has {routing.num_tokens}; expected the "
            "same tokens in the same order, and no counts."
        )
    both = against, routing
    known = {
        "tokens": [one.factors.get("token") for one in both],
        "documents": [_named_documents(one) for one in both],
    }
    for what, (ours, theirs) in known.items():
        if ours is not None and theirs is not None and (wrong := np.flatnonzero(ours != theirs)).size:
            raise ValueError(
                f"against and routing have different {what} from token {wrong[0]} on; expected the same "
                "tokens in the same order. Run both checkpoints on the same texts."
            )


def _named_documents(routing: Routing) -> NDArray[Any] | None:
    """Return the name of every token's document, or its number if documents have no names."""
    if routing.documents is None or routing.document_names is None:
        return routing.documents
    return np.array(routing.document_names)[routing.documents]


def _choices_of_counts(routing: Routing, counted: Counted) -> Choices:
    layers = np.flatnonzero(counted.counts.any(axis=(0, 2)))  # dense layers have zeros
    sums, known = counted.counts[:, layers], counted.top_k
    return Choices(
        layers=tuple(layers.tolist()),
        num_experts=sums.shape[2],
        expert_numbers=routing.expert_numbers,
        top_k=known,
        experts=None,
        sums=sums,
        documents=np.arange(len(sums)),
        has_documents=True,
        labels=routing.labels,
        names=routing.names,
        notes=(UNKNOWN_TOP_K,) if known is None else (),
    )


def _documents(routing: Routing) -> tuple[Ints, bool, list[str]]:
    """Return the document of every token, numbered by first occurrence, whether it is known, and notes."""
    if routing.documents is None:
        assumed, note = assumed_documents(domains_of(routing), routing.num_tokens)
        return assumed, False, [note]
    _, first, inverse = np.unique(routing.documents, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse], True, []


def domains_of(routing: Routing) -> Ints | None:
    """Return labels `[tokens]`; None if there are none, or if token ids stand in for them."""
    if routing.labels is None or "token" not in routing.factors:
        return routing.labels
    ids = frequent_tokens(Classes(routing.factors["token"], None), None).numbers
    return None if np.array_equal(ids, routing.labels) else routing.labels


def _sampled(documents: Ints, width: int, seed: int) -> tuple[Ints, str]:
    """Return the tokens of documents that fit, sorted by document, and a note if these are not all."""
    order = np.argsort(documents, kind="stable")
    if len(documents) * width <= MOST_CHOICES:
        return order, ""
    kept = drawn_documents(np.bincount(documents), MOST_CHOICES // width, seed)
    order = order[np.isin(documents[order], kept)]
    text = f"{len(order)} of {len(documents)} tokens are used, from {len(kept)} documents drawn at random."
    return order, text


def ordered_choices(layer: Layer, some: Ints, first_token: int = 0) -> Ints:
    """Return the experts of tokens `[N, k]`, the largest weight first; dropped choices are -1 and last."""
    mass, hard = layer.read(some, first_token)
    assert hard.modules is not None  # hard assignment always has them
    k, sent = layer.top_k or 1, hard.weights > 0
    experts = np.where(sent, hard.modules, NONE)
    if experts.shape[1] == 1:
        return experts
    weights = mass.weights if mass.modules is not None else hard.weights
    order = np.argsort(np.where(sent, -weights, 1.0), axis=1, kind="stable")
    return np.take_along_axis(experts, order, axis=1)[:, :k]  # shared experts count as dropped, and are last
