"""The same definitions in plain Python, token by token."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np

from modtf.routing.analyses import Choices


def choices(experts, documents, number, against=None, **more):
    """Return choices `[layers, tokens, k]` as analyses take them; documents are sorted from 0."""
    experts = np.asarray(experts)
    other = None if against is None else choices(against, documents, number)
    return Choices(
        layers=tuple(range(len(experts))), num_experts=number, top_k=experts.shape[2], experts=experts,
        expert_numbers=np.arange(number),
        sums=None, documents=np.asarray(documents), has_documents=True, ranked=True, against=other, **more,
    )  # fmt: skip


def taken(token):
    return [int(one) for one in token if one >= 0]


def first_repeated(experts, documents):
    both = [
        (a[0], b[0])
        for (a, d), (b, e) in pairwise(zip(experts, documents, strict=True))
        if d == e and a[0] >= 0 and b[0] >= 0
    ]
    return sum(a == b for a, b in both) / len(both)


def any_repeated(experts, documents):
    both = [
        (set(taken(a)), set(taken(b)))
        for (a, d), (b, e) in pairwise(zip(experts, documents, strict=True))
        if d == e and taken(a) and taken(b)
    ]
    return sum(bool(a & b) for a, b in both) / len(both)


def srp(experts, documents, number, length):
    """Try every threshold c, over all segments of a document."""
    pieces = []
    for document in sorted(set(documents)):
        tokens = [taken(t) for t, d in zip(experts, documents, strict=True) if d == document]
        whole = len(tokens) // length
        pieces += [tokens[length * i : length * (i + 1)] for i in range(whole)]
    best = 0.0
    for threshold in range(length + 1):
        right = predicted = real = 0
        for piece in pieces:
            counts = Counter(expert for token in piece for expert in token)
            kept = [expert for expert in range(number) if counts[expert] >= threshold]
            right += sum(counts[expert] for expert in kept)
            predicted += length * len(kept)
            real += sum(counts.values())
        best = max(best, 2 * right / (predicted + real) if predicted + real else 0.0)
    return best


def cached(experts, size, policy, ahead=0):
    """Return the hits of every token for a cache that is a list; `policy` is "lru", "lfu" or "ahead"."""
    inside: list[int] = []
    used: Counter[int] = Counter()
    last: dict[int, tuple[int, int]] = {}
    found = []
    for time, token in enumerate(experts):
        now = taken(token)
        found.append(sum(expert in inside for expert in now))
        for rank, expert in enumerate(now):
            used[expert] += 1
            last[expert] = (time, -rank)
        future = Counter(e for later in experts[time + 1 : time + 1 + ahead] for e in taken(later))
        worth = {"lru": Counter(), "lfu": used, "ahead": future}[policy]
        kept = {expert: (worth[expert], last[expert]) for expert in inside if expert not in now}
        rest = sorted(kept, key=kept.__getitem__, reverse=True)
        inside = now + rest[: size - len(now)]
    return found


def information(first, after):
    pairs = [(a, b) for a, b in zip(first, after, strict=True) if a >= 0 and b >= 0]
    both, a, b = Counter(pairs), Counter(x for x, _ in pairs), Counter(y for _, y in pairs)
    n = len(pairs)
    return sum(c / n * math.log2(c * n / (a[x] * b[y])) for (x, y), c in both.items())


def partner_share(experts, number):
    sets = [set(taken(token)) for token in experts]
    loads = [sum(i in one for one in sets) for i in range(number)]
    partners = [
        max(sum(i in one and j in one for one in sets) for j in range(number) if j != i)
        for i in range(number)
    ]
    return sum(partners) / sum(loads)


def saturation(experts, last):
    shared = sum(len(set(taken(a)) & set(taken(b))) for a, b in zip(experts, last, strict=True))
    return shared / sum(len(taken(token)) for token in experts)
