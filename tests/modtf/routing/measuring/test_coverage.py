"""Routers independent of labels are inside the chance interval in 95% of draws, for any order of labels."""

import numpy as np
import pytest

from modtf.routing.measuring import measure_activations

MODULES = 6
NAME = "adjusted_mutual_information"


def draw(setting, seed):
    """Return experts, labels, documents and spans; each document and run has its own expert preferences."""
    generator = np.random.default_rng(seed)
    documents, labels, lengths = [], [], []
    for number in range(40):
        runs = {"documents": 1, "unequal documents": 1, "tokens": 24, "tokens, rare labels": 24}.get(
            setting, int(generator.integers(2, 8))
        )
        probs = [0.85, 0.05, 0.05, 0.05] if setting.endswith("rare labels") else [0.4, 0.3, 0.2, 0.1]
        if setting in ("documents", "unequal documents"):
            of = [number % 4]
        elif setting in ("turns", "turns, spans"):
            of = (np.arange(runs) % 2).tolist()
        else:
            of = generator.choice(4, size=runs, p=probs).tolist()
        documents += [number] * runs
        labels += of
        if setting.startswith("tokens"):
            lengths += [1] * runs
        elif setting == "documents":
            lengths += [20] * runs
        else:
            lengths += np.ceil(generator.lognormal(2.5, 0.8, size=runs)).astype(int).tolist()
    order = generator.permutation(40) if setting.endswith("documents") else np.arange(40)
    document, label = np.array(documents), np.array(labels)
    label = label[order] if len(label) == 40 else label
    base = generator.dirichlet(np.full(MODULES, 3.0))
    taste = generator.dirichlet(20 * base, size=40)[document]
    if not setting.startswith("tokens"):
        taste = np.array([generator.dirichlet(20 * one + 1e-3) for one in taste])
    run = np.repeat(np.arange(len(label)), lengths)
    levels = generator.random((len(run), 1))
    experts = (taste[run].cumsum(axis=1) < levels).sum(axis=1).clip(max=MODULES - 1)
    spans = run if setting.endswith("spans") else None
    return experts[:, np.newaxis], label[run], document[run], spans


def inside(setting, number, monkeypatch):
    """Return the share of routers inside the chance interval, and the share above it."""
    if setting.startswith("limit, "):
        monkeypatch.setattr("modtf.routing.measuring.activations.KEPT", 0)
    hits = []
    for seed in range(number):
        experts, labels, documents, spans = draw(setting.removeprefix("limit, "), seed)
        (layer,) = measure_activations(
            labels=labels, experts=experts, num_experts=MODULES, documents=documents, spans=spans,
            groups=["specialisation"], num_groups=2, seed=seed,
        )  # fmt: skip
        found = layer.hard.values[NAME]
        hits.append((found.chance_low <= found.value <= found.chance_high, found.value > found.chance_high))
    return np.mean(hits, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    ["documents", "unequal documents", "turns", "turns, spans", "blocks", "blocks, spans", "tokens",
     "tokens, rare labels", "limit, documents", "limit, turns", "limit, blocks", "limit, tokens"],
)  # fmt: skip
def test_the_band_holds_95_in_100(setting, monkeypatch):
    """The limit is meant for thousands of documents; with 40 its interval is somewhat too wide. So is that of
    rare labels."""
    share, above = inside(setting, 1000, monkeypatch)
    most = 0.99 if setting.startswith("limit") else 0.98 if "rare" in setting else 0.97
    assert 0.93 <= share <= most, (share, above)


@pytest.mark.parametrize("unit", ["runs", "documents"])
def test_labels_with_few_tokens_do_not_seem_known(unit):
    """Permuted, their short runs or documents would get many tokens, and their rows too little noise."""
    above = []
    for seed in range(8):
        generator = np.random.default_rng(seed)
        if unit == "runs":  # named entities: most tokens have the label 0
            documents = np.repeat(np.arange(40), 50)
            rare = 1 + generator.integers(20, size=len(documents))
            labels = np.where(generator.random(len(documents)) < 0.1, rare, 0)
        else:
            of_document = np.arange(64) % 8
            documents = np.repeat(np.arange(64), np.where(of_document == 0, 200, 10))
            labels = of_document[documents]
        experts = generator.integers(MODULES, size=(len(labels), 1))
        (layer,) = measure_activations(
            labels=labels, experts=experts, num_experts=MODULES, documents=documents, seed=seed,
            label_probs="uniform" if unit == "documents" else None,
        )  # fmt: skip
        found = layer.hard.values[NAME]
        above.append(found.value > found.chance_high)
    assert sum(above) <= 1
