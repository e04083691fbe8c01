"""Measure published claims again on public routing, with the chance level of permuted documents.

Two public repositories hold the routing that their claims stand on: 32 prompts of eight domains through
Qwen3.6-35B-A3B (top-8 of 256 experts, 40 layers), and 26 runs of 4,096 tokens through Gemma 4 26B A4B (top-8
of 128 experts, 30 layers). A permuted router has the same choices, with domains dealt to other prompts, or
tokens to other places. Nothing of their data is part of modtf. Takes 20 seconds of CPU.

Example:
    git clone https://github.com/crogers2287/jlens
    git clone https://github.com/avifenesh/gemma-expert-atlas
    python examples/routing_public.py --jlens=jlens --gemma=gemma-expert-atlas
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import modtf
from modtf.pages.text import markdown_table

Ints = NDArray[np.int64]
Scores = dict[str, float]
LOCALITY = {
    "repetition": ["first_choice_repeated", "any_choice_repeated"],
    "consistency": ["segment_routing_best_performance_16"],
}
VOCABULARY = ["first_choice_input", "first_choice_input_frequent"]
NULLS = dict.fromkeys(LOCALITY, "tokens moved within documents") | {
    "dependence": "the next layer's choices of other tokens of the document",
    "vocabulary_specialisation": "ids of other tokens",
}


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


def analysed(where: str, arrays: dict[str, Any], names: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return a row for some measures of modtf's analyses, as means over layers, with their own chance."""
    rows = []
    for analysis, found in modtf.analyse_routing(arrays, list(names)).found.items():
        for measure in names[analysis]:
            means = found.table[found.table.measure == measure].mean(numeric_only=True)
            band = f"{means.chance:.3f} ({means.chance_low:.3f} to {means.chance_high:.3f})"
            rows.append([where, f"{measure} ({analysis})", NULLS[analysis], f"{means.value:.3f}", band])
    return rows


def locality(arrays: dict[str, Any]) -> Scores:
    """Return how alike neighbouring tokens are routed, as means over layers."""
    found = modtf.analyse_routing(arrays, list(LOCALITY), permutations=0).found
    means = pd.concat([found[name].table for name in LOCALITY]).groupby("measure").value.mean()
    return {measure: float(means[measure]) for measures in LOCALITY.values() for measure in measures}


def shuffled(random: np.random.Generator, arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the routing with its tokens in random places, also of other documents."""
    order = random.permutation(len(arrays["documents"]))
    moved = {name: arrays[name][:, order] for name in ("experts", "weights")}
    return {**arrays, **moved}


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


def unused(active: NDArray[np.bool_], documents: Ints, tokens: int, random: np.random.Generator) -> Scores:
    """Return how many experts some prompts of about `tokens` tokens leave unused, `[tokens, slots]`."""
    order = random.permutation(documents.max() + 1)
    some = np.isin(documents, order[np.cumsum(np.bincount(documents)[order]) <= tokens])
    early = active[some].any(0)
    return {"unused": float((~early).mean()), "later": float(active[~some][:, ~early].any(0).mean())}


def prompts_of(path: Path) -> dict[str, Any]:
    """Return the routing of the prompts of jlens as arrays."""
    prompts = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    layers = [
        [(layer["topk_experts"], layer["topk_probs"]) for layer in prompt["layers"]] for prompt in prompts
    ]
    experts, weights = (
        np.concatenate([[layer[i] for layer in prompt] for prompt in layers], axis=1) for i in (0, 1)
    )
    return {
        "experts": experts, "weights": weights, "num_experts": 256,
        "documents": np.repeat(np.arange(len(prompts)), [prompt["tokens"] for prompt in prompts]),
        "labels": np.array([prompt["domain"] for prompt in prompts]),
    }  # fmt: skip


def answers_of(path: Path) -> Any:
    """Return the routing of the answers of jlens, a record for each token."""
    rows = []
    for record in map(json.loads, path.read_text("utf-8").splitlines()):
        row = {"document": f"{record['run_id']} {record['prompt_id']}", "label": record["domain"]}
        row |= {"token": record["generated_token_index"], "token_id": record["generated_token_id"]}
        for one in record["router_layers"]:
            choices = {"experts": one["topk_experts"], "weights": one["topk_probs"]}
            rows.append(row | {"layer": one["layer"]} | choices)
    return modtf.read_routing(rows, num_experts=256)


def counts_of(path: Path) -> Ints:
    """Return the counts `[layers, experts]` of a run of gemma-expert-atlas."""
    layers = json.loads(path.read_text("utf-8"))["layers"]
    return np.array([one["counts"] for one in sorted(layers, key=lambda one: one["layer"])])


def qwen(folder: Path, draws: int) -> list[list[str]]:
    """Measure the routing of jlens."""
    random = np.random.default_rng(0)
    prompts = prompts_of(folder / "reports" / "schema" / "r3.jsonl")
    documents, labels = prompts["documents"], np.unique(prompts["labels"], return_inverse=True)[1]
    active = one_hot(prompts["experts"])
    counts = np.stack([active[:, documents == document].sum(1) for document in range(len(labels))])
    rows = compare(
        "prompts", "domains dealt anew", domains(counts, labels),
        lambda: domains(counts, random.permutation(labels)), draws,
    )  # fmt: skip
    rows += compare(
        "prompts", "tokens moved anywhere", locality(prompts),
        lambda: locality(shuffled(random, prompts)), draws // 20,
    )  # fmt: skip
    rows += analysed("prompts", prompts, LOCALITY | {"dependence": ["adjusted_mutual_information"]})
    slots = active.transpose(1, 0, 2).reshape(len(documents), -1)
    few = [unused(slots, documents, 102, random) for _ in range(draws // 10)]
    for name, key in (("experts unused by 102 tokens", "unused"), ("of these, used by the others", "later")):
        rows.append(["prompts", name, "", f"{np.mean([found[key] for found in few]):.3f}", ""])
    answers = answers_of(folder / "reports" / "schema" / "r4_decode.jsonl")
    rows += analysed("answers", answers, LOCALITY | {"vocabulary_specialisation": VOCABULARY})
    return rows + information("answers", answers.measure(permutations=200))


def gemma(folder: Path) -> list[list[str]]:
    """Measure the counts of gemma-expert-atlas: 26 runs of its tasks, and 26 of other themes."""
    rows, counts = [], {}
    for name in ("personal_agent", "theme"):
        runs = sorted((folder / "public" / "data" / f"{name}_traces").glob("*.json"))
        counts[name] = np.stack([counts_of(path) for path in runs])
        tasks = [path.stem.rpartition("_reasoning")[0] for path in runs]
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
    if options.draws < 20:
        parser.error(f"--draws={options.draws}: expected at least 20.")
    for flag, folder, needed in (
        ("jlens", options.jlens, "reports/schema/r4_decode.jsonl"),
        ("gemma", options.gemma, "public/data/theme_traces"),
    ):
        if folder and not (folder / needed).exists():
            parser.error(f"--{flag}={folder}: {needed} is missing; expected a clone of the repository.")
    rows = qwen(options.jlens, options.draws) if options.jlens else []
    rows += gemma(options.gemma) if options.gemma else []
    header = ["routing", "measure", "permuted router", "measured", "chance"]
    print(markdown_table(header, rows, left=3))


if __name__ == "__main__":
    main()
