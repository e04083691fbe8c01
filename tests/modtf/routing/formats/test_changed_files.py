"""Changes of whole files, logits and counts: each is rejected, warned about, or harmless, never silent."""

import gzip
import json
import re
import warnings

import format_writers as writers
import numpy as np
import pytest
import torch
from silence import is_silent

import modtf


def of_layers(change):
    """A change of the logits [layers, tokens, E] of a model's output."""

    def changed(output):
        layers = change(torch.stack(output["router_logits"]))
        return {**output, "router_logits": tuple(layers)}

    return changed


LOGITS = {
    "softmaxed": of_layers(lambda layers: torch.softmax(layers, dim=-1)),
    "rounded after the softmax": of_layers(lambda layers: torch.softmax(layers, dim=-1).half().float()),
    "swapped": of_layers(lambda layers: layers.transpose(1, 2)),
    "layers last": of_layers(lambda layers: layers.permute(1, 2, 0)),
    "one token less": of_layers(lambda layers: layers[:, :-1]),
    "no number": of_layers(lambda layers: torch.where(layers == layers.min(), torch.nan, layers)),
    "no mask, swapped": lambda output: tuple(layer.T for layer in output["router_logits"]),
    "one layer less wide": lambda output: (*output["router_logits"][1:], output["router_logits"][0][:, 1:]),
    "mask of one text less": lambda output: {**output, "attention_mask": output["attention_mask"][1:]},
    "tokens of one text less": lambda output: {**output, "input_ids": output["input_ids"][1:]},
    "swapped mask": lambda output: {
        **output,
        "attention_mask": output["attention_mask"].T,
        "input_ids": None,
    },
}


def is_silent_of_logits(output):
    try:
        with warnings.catch_warnings(record=True) as notes:
            warnings.filterwarnings("ignore", "There is no attention_mask")
            layers = modtf.read_routing(output, from_logits=True, top_k=writers.K).measure(permutations=0)
    except ValueError:
        return False
    warned = [text for layer in layers for text in layer.warnings if "softmax" in text or "sum to 1" in text]
    return not notes and not warned


@pytest.mark.parametrize("name", LOGITS)
def test_logits(name, tmp_path):
    output = writers.router_logits(tmp_path)
    if name == "swapped mask":  # rows of one length: else the shapes say it
        output["router_logits"] = tuple(
            layer.reshape(3, -1, writers.EXPERTS) for layer in output["router_logits"]
        )
    assert not is_silent_of_logits(LOGITS[name](output))


def rewritten(folder, change):
    """Return a file, or an object in memory, that holds the changed content of the first file in a folder."""
    path = min(path for path in folder.iterdir() if path.suffix in (".pt", ".jsonl", ".csv", ".gz"))
    if path.suffix == ".gz":
        return change([json.loads(line) for line in gzip.open(path)])
    if path.suffix == ".pt":
        return change(torch.load(path, weights_only=True))
    if path.suffix == ".jsonl":
        return writers.write_lines(path, change([json.loads(line) for line in path.read_text().splitlines()]))
    path.write_text(change(path.read_text()))
    return folder


def field(name, change):
    return lambda content: {**content, name: change(content[name])}


def without(name):
    return lambda content: {key: value for key, value in content.items() if key != name}


def fields(part, change):
    """A change of all fields whose names have this part."""
    return lambda content: {name: change(v) if part in name else v for name, v in content.items()}


def passes(name, change):
    return field("records", lambda records: [field(name, change)(record) for record in records])


def one(number, change):
    """A change of one of the records."""
    return lambda records: [change(r) if i == number else r for i, r in enumerate(records)]


def choice(**fields):
    return lambda response: {**response, "choices": [{**response["choices"][0], **fields}]}


def of_choice(name, change):
    return lambda response: choice(**{name: change(response["choices"][0][name])})(response)


def record(number, **values):
    return one(number, lambda r: {**r, **{n: v(r) if callable(v) else v for n, v in values.items()}})


def meta(**values):
    return one(0, lambda r: {"meta_info": {**r["meta_info"], **values}})


MASK, ROUTED = "attention_mask", "routed_experts"
TOPK, MAP = "topk_ids_of_layer", "last_physical_to_logical_map"
#: format, what is done -> the change of its content
OTHERS = {
    ("verl", "mask a token late"): field(MASK, lambda mask: mask.roll(1, 1)),
    ("verl", "mask a token early"): field(MASK, lambda mask: mask.roll(-1, 1)),
    ("verl", "experts a token late"): field(ROUTED, lambda routed: routed.roll(1, 1)),
    ("verl", "experts a token early"): field(ROUTED, lambda routed: routed.roll(-1, 1)),
    ("verl", "layers before tokens"): field(ROUTED, lambda routed: routed.transpose(1, 2)),
    ("verl", "k before layers"): field(ROUTED, lambda routed: routed.transpose(2, 3)),
    ("verl", "no mask"): field(MASK, lambda _: None),
    ("verl", "all is a token"): field(MASK, torch.ones_like),
    ("verl", "numbers with a fraction"): field(ROUTED, lambda routed: routed + 0.5),
    ("sglang_recorder", "tokens before layers"): passes(TOPK, lambda ids: ids.transpose(0, 1)),
    ("sglang_recorder", "k before tokens"): passes(TOPK, lambda ids: ids.transpose(1, 2)),
    ("sglang_recorder", "one token less"): passes(TOPK, lambda ids: ids[:, 1:]),
    ("sglang_recorder", "one layer less"): passes(TOPK, lambda ids: ids[1:]),
    ("sglang_recorder", "fewer physical experts"): field(MAP, lambda mapping: mapping[:, :-1]),
    ("sglang_recorder", "map of another axis"): field(MAP, lambda mapping: mapping.T),
    ("sglang_recorder", "no map"): without(MAP),
    ("vllm", "no tokens given"): one(0, lambda r: choice()({**r, "usage": None, "prompt_token_ids": None})),
    ("vllm", "prompt two shorter"): one(1, field("prompt_token_ids", lambda ids: ids[2:])),
    ("vllm", "prompt longer"): one(1, field("prompt_token_ids", lambda ids: [1, *ids])),
    ("vllm", "completion longer"): one(2, of_choice("token_ids", lambda ids: [*ids, 5])),
    ("vllm", "cut"): one(2, of_choice(ROUTED, lambda text: text[:-8])),
    ("vllm", "one choice without"): one(2, choice(routed_experts=None)),
    ("vllm", "no choices"): record(1, choices=[]),
    ("sglang", "one token more"): meta(prompt_tokens=7),
    ("sglang", "one token less"): meta(prompt_tokens=5),
    ("sglang", "no count"): one(0, field("meta_info", lambda info: {ROUTED: info[ROUTED]})),
    ("jsonl_layers", "a layer less"): lambda records: records[1:],
    ("jsonl_layers", "a row twice"): lambda records: [*records, records[7]],
    ("jsonl_layers", "half an expert"): record(3, expert=[0.5, 1]),
    ("jsonl_layers", "a choice less"): record(3, expert=[1]),
    ("jsonl_layers", "a token less"): lambda records: records[:9] + records[12:],
    ("jsonl_layers", "another label"): record(4, label="verse"),
    ("jsonl_layers", "another model"): lambda records: [
        {**r, "num_experts": 8 if i else 16} for i, r in enumerate(records)],
    ("jsonl_layers", "another k"): lambda records: [{**r, "top_k": 4} for r in records],
    ("jsonl_layers", "a field less"): one(4, without("weight")),
    ("jsonl_layers", "no tokens"): lambda records: [without("token")(r) for r in records],
    ("jsonl_lists", "a layer less"): record(1, experts=lambda r: r["experts"][1:]),
    ("csv_choices", "a row less"): lambda text: text.strip().rpartition("\n")[0],
    ("csv_choices", "a row twice"): lambda text: f"{text}{text.strip().rpartition(chr(10))[2]}",
    ("csv_choices", "another slot"): lambda text: text.replace("text 0,0,0,1,", "text 0,0,0,0,", 1),
    ("csv_choices", "swapped columns"): lambda text: text.replace("layer,slot,expert", "expert,slot,layer"),
    ("csv_choices", "no number"): lambda text: text.replace("text 0,0,", "text 0,zero,", 1),
    ("csv_choices", "another table"): lambda text: text.replace("token,", "count,"),
    ("csv_choices", "several texts"): lambda text: re.sub("text .", "text 0", text),
    ("megatron_core", "a record less"): lambda records: records[:-1],
    ("megatron_core", "a record twice"): lambda records: [*records, records[-1]],
    ("megatron_core", "too few tokens"): record(2, num_tokens=lambda r: r["num_tokens"] - 1),
    ("megatron_core", "half an expert"): record(2, top_indices=lambda r: [[1.5, 2], *r["top_indices"][1:]]),
    ("megatron_core", "another k"): record(2, topk=3),
    ("megatron_core", "a token less"): record(2, num_tokens=lambda r: r["num_tokens"] - 1,
                                              top_indices=lambda r: r["top_indices"][1:]),
    ("transformer_lens", "a block without weights"): without("blocks.1.mlp.hook_expert_weights"),
    ("transformer_lens", "position before batch"): fields(
        "1.mlp.hook_expert_indices", lambda values: values.transpose(0, 1)),
    ("transformer_lens", "k before position"): fields("indices", lambda values: values.transpose(1, 2)),
    ("transformer_lens", "a token less"): fields("indices", lambda values: values[:, 1:]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "what"), OTHERS)
def test_others(name, what, tmp_path):
    getattr(writers, name)(tmp_path)
    changed = rewritten(tmp_path, OTHERS[name, what])
    assert not is_silent(changed, **({"top_k": writers.K} if name == "sglang" else {}))


#: what is done -> the records of a second rank of Megatron Core
RANKS = {
    "a copy of the rank": lambda records: [{**r, "rank": 1} for r in records],
    "a stage with layers from 0": lambda records: [
        {**r, "top_indices": r["top_indices"][::-1]} for r in records
    ],
    "a stage with fewer layers": lambda records: [r for r in records if r["layer"] > 0],
}


@pytest.mark.parametrize("what", RANKS)
def test_a_second_rank(what, tmp_path):
    path = writers.megatron_core(tmp_path)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    writers.write_lines(tmp_path / "router_trace_rank1.jsonl", RANKS[what](records))
    assert not is_silent(tmp_path)


@pytest.mark.parametrize("top_k", [1, 3, 6])
def test_another_top_k(top_k, tmp_path):
    assert not is_silent(writers.sglang(tmp_path), top_k=top_k)


#: what is done -> the change of counts [documents, layers, experts]
COUNTS = {
    "layers first": lambda counts: counts.swapaxes(0, 1),
    "experts before layers": lambda counts: counts.swapaxes(1, 2),
    "documents last": lambda counts: counts.transpose(1, 2, 0),
    "ranks added up": lambda counts: 4 * counts,
    "negative": lambda counts: counts - counts.max(),
    "fractions": lambda counts: counts / 3,
    "no numbers": lambda counts: np.where(counts == counts.max(), np.nan, counts),
    "a layer that counts twice": lambda counts: counts * np.array([2, 1, 1])[:, np.newaxis],
    "nothing": lambda counts: 0 * counts,
    "one more than tokens": lambda counts: counts + 60 * np.eye(8, dtype=int)[[0, 0, 0]],
}


@pytest.mark.parametrize("what", COUNTS)
def test_counts(what):
    assert not is_silent({"counts": COUNTS[what](writers.COUNTS)}, top_k=writers.K)
