"""Routers that know nothing, for the contract of all analyses."""

import numpy as np

LAYERS, DOCUMENTS, LENGTH, EXPERTS, TOP_K = 2, 40, 30, 8, 2


def ignorant(seed, layers=LAYERS, load=None):
    """Return the arrays of a router that chooses experts at random, whatever the token and its document."""
    generator = np.random.default_rng(seed)
    tokens = DOCUMENTS * LENGTH
    documents = np.repeat(np.arange(DOCUMENTS), LENGTH)
    scores = np.log(np.ones(EXPERTS) if load is None else load) + generator.gumbel(
        size=(layers, tokens, EXPERTS)
    )
    experts = np.argsort(-scores, axis=2)[:, :, :TOP_K]
    return {
        "experts": experts,
        "weights": np.sort(generator.random(experts.shape), axis=2)[:, :, ::-1],
        "num_experts": EXPERTS,
        "documents": documents,
        "labels": (documents % 4),
        "label_names": np.array(["code", "law", "news", "verse"]),
        "tokens": generator.geometric(0.05, size=tokens),
        "predicted_tokens": generator.geometric(0.05, size=tokens),
    }


def counts_of(arrays):
    """Return the same as counts of experts per document."""
    found = np.zeros((DOCUMENTS, len(arrays["experts"]), EXPERTS), np.int64)
    for layer, experts in enumerate(arrays["experts"]):
        np.add.at(found[:, layer], (arrays["documents"][:, np.newaxis], experts), 1)
    names = arrays["label_names"]
    return {
        "counts": found,
        "labels": np.arange(DOCUMENTS) % 4,
        "label_names": names,
        "top_k": np.array(TOP_K),
    }


def unrelated(arrays, seed):
    """Return the arrays of another router that knows nothing, on the same tokens."""
    return arrays | {name: ignorant(seed)[name] for name in ("experts", "weights")}


def analysed(name, seed, **options):
    """Return what an analysis finds in a router that knows nothing."""
    import modtf

    arrays = ignorant(seed)
    against = unrelated(arrays, seed + 10**6)
    found = modtf.analyse_routing(arrays, name, against=against, seed=seed, **options)
    assert not found.missing, found.missing
    return found.found[name]


def coverage(name, draws):
    """Return how often the value of each measure is inside, at a limit of, and above its chance band."""
    inside: dict[str, list[bool]] = {}
    limit: dict[str, list[bool]] = {}
    above: dict[str, list[bool]] = {}
    for seed in range(draws):
        table = analysed(name, seed).table
        table = table[(table["item"] == "") & table["chance_low"].notna()]
        for row in table.itertuples():
            inside.setdefault(row.measure, []).append(row.chance_low <= row.value <= row.chance_high)
            limit.setdefault(row.measure, []).append(row.value in (row.chance_low, row.chance_high))
            above.setdefault(row.measure, []).append(row.value > row.chance_high)
    return {m: tuple(float(np.mean(s[m])) for s in (inside, limit, above)) for m in inside}
