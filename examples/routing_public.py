"""Measure published claims again on public routing, with the chance level of permuted documents.

Two public repositories hold the routing that their claims stand on: 32 prompts of eight domains through
Qwen3.6-35B-A3B (top-8 of 256 experts, 40 layers), and 26 runs of 4,096 tokens through Gemma 4 26B A4B (top-8
of 128 experts, 30 layers). A permuted router has the same choices, with domains dealt to other prompts, or
tokens to other places. Nothing of their data is part of modtf.

Example:
    git clone https://github.com/crogers2287/jlens
    git clone https://github.com/avifenesh/gemma-expert-atlas
    python examples/routing_public.py --jlens=jlens --gemma=gemma-expert-atlas
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import modtf
from modtf.analysis.text import markdown_table

Ints, Floats = NDArray[np.int64], NDArray[np.float64]
Scores = dict[str, float]


def one_hot(experts: Ints, num_experts: int = 256) -> NDArray[np.bool_]:
    """Return which experts each token activates, `[layers, tokens, experts]`."""
    active = np.zeros((*experts.shape[:2], num_experts), dtype=bool)
    np.put_along_axis(active, experts, True, axis=2)
    return active


def similarity(sets: NDArray[np.bool_]) -> float:
    """Return the Jaccard similarity of pairs of sets `[domains, layers, experts]`, mean over layers."""
    pairs = [(a, b) for i, a in enumerate(sets) for b in sets[:i]]
    return float(np.mean([(a & b).sum(1) / (a | b).sum(1) for a, b in pairs]))


def domains(counts: Ints, labels: Ints) -> Scores:
    """Measure how domains differ, from counts `[prompts, layers, experts]`."""
    total = np.stack([counts[labels == label].sum(0) for label in range(labels.max() + 1)])
    used = total > 0
    alone = (used & (used.sum(0) == 1)).sum((1, 2))
    top = one_hot(np.argsort(-total, axis=2)[..., :8].reshape(-1, total.shape[1], 8), total.shape[2])
    signatures = (counts / counts.sum(2, keepdims=True)).reshape(len(counts), -1)
    signatures /= np.linalg.norm(signatures, axis=1, keepdims=True)
    cosine = signatures @ signatures.T
    same = labels[:, np.newaxis] == labels
    others = ~np.eye(len(labels), dtype=bool)
    means = [
        (cosine * (others & (labels == label))).sum(1) / (others & (labels == label)).sum(1)
        for label in range(labels.max() + 1)
    ]
    return {
        "experts that one domain alone uses: largest domain": float(np.sort(alone)[-1]),
        "experts that one domain alone uses: second domain": float(np.sort(alone)[-2]),
        "overlap of the experts that domains use": similarity(used),
        "overlap of the 8 most used experts of domains": similarity(top),
        "cosine of prompts within a domain": float(cosine[same & others].mean()),
        "accuracy of the nearest domain of a prompt": float((np.argmax(means, axis=0) == labels).mean()),
    }


def locality(experts: Ints, documents: Ints, length: int = 16) -> Scores:
    """Measure how alike neighbouring tokens are routed, from experts `[layers, tokens, k]`."""
    neighbours = documents[1:] == documents[:-1]
    before, after = experts[:, :-1][:, neighbours], experts[:, 1:][:, neighbours]
    active = np.cumsum(np.pad(one_hot(experts), ((0, 0), (1, 0), (0, 0))), axis=1, dtype=np.int32)
    inside = documents[length - 1 :] == documents[: len(documents) - length + 1]
    windows = (active[:, length:] - active[:, :-length])[:, inside]
    segments = np.bincount(windows.ravel(), minlength=length + 1)
    hits = np.cumsum((segments * np.arange(length + 1))[::-1])[::-1]
    predicted = length * np.cumsum(segments[::-1])[::-1]
    return {
        "same first choice as the token before": float((before[..., 0] == after[..., 0]).mean()),
        "experts shared with the token before": float(
            (before[..., np.newaxis] == after[..., np.newaxis, :]).any(-1).mean()
        ),
        "segment routing best performance": float((2 * hits / (predicted + hits[0])).max()),
    }


def compare(
    where: str, null: str, measured: Scores, permuted: Callable[[], Scores], draws: int
) -> list[list[str]]:
    """Return a row for every score, with the mean and the 95% band of permuted routers."""
    drawn = [permuted() for _ in range(draws)]
    rows = []
    for name, value in measured.items():
        scores = [scores[name] for scores in drawn]
        low, high = np.percentile(scores, [2.5, 97.5])
        band = f"{np.mean(scores):.3f} ({low:.3f} to {high:.3f})"
        rows.append([where, name, null, f"{value:.3f}", band])
    return rows


def shuffled(random: np.random.Generator, documents: Ints, within: bool) -> Ints:
    """Return an order of tokens in which they change places, within their documents or everywhere."""
    keys = random.random(len(documents))
    return np.lexsort((keys, documents)) if within else np.argsort(keys)


def unused(active: NDArray[np.bool_], documents: Ints, tokens: int, random: np.random.Generator) -> Scores:
    """Return how many experts some prompts of about `tokens` tokens leave unused, `[tokens, slots]`."""
    order = random.permutation(documents.max() + 1)
    some = np.isin(documents, order[np.cumsum(np.bincount(documents)[order]) <= tokens])
    early = active[some].any(0)
    return {"unused": float((~early).mean()), "later": float(active[~some][:, ~early].any(0).mean())}


def qwen(folder: Path, draws: int) -> list[list[str]]:
    """Measure the routing of jlens."""
    random = np.random.default_rng(0)
    path = folder / "reports" / "schema" / "r3.jsonl"
    prompts = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    names = sorted({prompt["domain"] for prompt in prompts})
    labels = np.array([names.index(prompt["domain"]) for prompt in prompts])
    each = [np.array([layer["topk_experts"] for layer in prompt["layers"]]) for prompt in prompts]
    experts, documents = (
        np.concatenate(each, axis=1),
        np.repeat(np.arange(len(each)), [e.shape[1] for e in each]),
    )
    active = one_hot(experts)
    counts = np.stack([active[:, documents == document].sum(1) for document in range(len(each))])
    rows = compare(
        "prompts", "domains dealt anew", domains(counts, labels),
        lambda: domains(counts, random.permutation(labels)), draws,
    )  # fmt: skip

    decoded = modtf.read_routing(folder / "reports" / "schema" / "r4_decode.jsonl")
    generated = np.stack([layer.experts for layer in decoded.whole().layers])
    for where, chosen, place in (("prompts", experts, documents), ("answers", generated, decoded.documents)):
        found = locality(chosen, place)
        for within, null in ((False, "tokens shuffled everywhere"), (True, "shuffled within documents")):
            rows += compare(
                where, null, found,
                lambda c=chosen, p=place, w=within: locality(c[:, shuffled(random, p, w)], p), draws // 10,
            )  # fmt: skip
    slots = active.transpose(1, 0, 2).reshape(len(documents), -1)
    few = [unused(slots, documents, 110, random) for _ in range(draws // 10)]
    for name, key in (("experts unused by 110 tokens", "unused"), ("of these, used by the others", "later")):
        rows.append(["prompts", name, "", f"{np.mean([found[key] for found in few]):.3f}", ""])
    rows += information("answers", decoded.measure(permutations=200))
    return rows


def gemma(folder: Path) -> list[list[str]]:
    """Measure the counts of gemma-expert-atlas: 26 runs of its tasks, and 26 of other themes."""
    rows, counts = [], {}
    for name in ("personal_agent", "theme"):
        runs = folder / "public" / "data" / f"{name}_traces"
        counts[name] = modtf.read_routing(runs, format="layer_counts").activations.counts
        tasks = [path.stem.rpartition("_reasoning")[0] for path in sorted(runs.glob("*.json"))]
        labels = np.unique(tasks, return_inverse=True)[1]
        layers = modtf.measure_activations(counts=counts[name], labels=labels, top_k=8)
        rows += information(f"{name} runs", layers)
    tasks_used, themes_used = (counts[name].sum(0) > 0 for name in counts)
    both = (~tasks_used & themes_used).sum()
    return [
        ["personal_agent runs", "experts that no token activates", "", f"{(~tasks_used).sum()}", ""],
        ["theme runs", "of these, activated", "", f"{both}", ""],
        *rows,
    ]


def information(where: str, layers: list) -> list[list[str]]:
    """Return the layer with the most adjusted mutual information, and how many layers are beyond chance."""
    found = [layer.hard.values["adjusted_mutual_information"] for layer in layers]
    best = max(found, key=lambda value: value.value)
    beyond = sum(value.value > value.chance_high for value in found)
    name = f"adjusted mutual information, best layer; {beyond} of {len(found)} layers beyond chance"
    band = f"{best.chance:.3f} ({best.chance_low:.3f} to {best.chance_high:.3f})"
    return [[where, name, "domains dealt anew", f"{best.value:.3f}", band]]


def main() -> None:
    """Print the table of both repositories."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jlens", type=Path, help="a clone of github.com/crogers2287/jlens")
    parser.add_argument("--gemma", type=Path, help="a clone of github.com/avifenesh/gemma-expert-atlas")
    parser.add_argument("--draws", type=int, default=200, help="permuted routers")
    options = parser.parse_args()
    if options.jlens is None and options.gemma is None:
        parser.error("expected --jlens=FOLDER or --gemma=FOLDER; --help says where they come from.")
    rows = qwen(options.jlens, options.draws) if options.jlens else []
    rows += gemma(options.gemma) if options.gemma else []
    header = ["routing", "measure", "permuted router", "measured", "chance"]
    print(markdown_table(header, rows, left=3))


if __name__ == "__main__":
    main()
