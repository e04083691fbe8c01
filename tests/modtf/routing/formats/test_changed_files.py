"""Changes of whole files, logits and counts: each is rejected, warned about, or harmless, never silent."""

import json
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
            routing = modtf.read_routing(output)
            layers = modtf.measure_activations(
                routing.chunks(), permutations=0, from_logits=True, top_k=writers.K
            )
    except ValueError:
        return False
    said = [text for layer in layers for text in layer.warnings if "softmax" in text or "sum to 1" in text]
    return not notes and not said


@pytest.mark.parametrize("name", LOGITS)
def test_logits(name, tmp_path):
    output = writers.router_logits(tmp_path)
    if name == "swapped mask":  # rows of one length: else the shapes say it
        output["router_logits"] = tuple(
            layer.reshape(3, -1, writers.EXPERTS) for layer in output["router_logits"]
        )
    assert not is_silent_of_logits(LOGITS[name](output))


def torch_dump(change):
    """A change of what a .pt file holds."""

    def changed(folder):
        (path,) = folder.glob("*.pt")
        return change(torch.load(path, weights_only=True))

    return changed


def with_field(name, change):
    return torch_dump(lambda content: {**content, name: change(content[name])})


def passes(name, change):
    def changed(dump):
        return {**dump, "records": [{**record, name: change(record[name])} for record in dump["records"]]}

    return torch_dump(changed)


def lines(change):
    """A change of the records of a .jsonl file."""

    def changed(folder):
        (path,) = folder.glob("*.jsonl")
        records = [json.loads(line) for line in path.read_text().splitlines()]
        return writers.write_lines(path, change(records))

    return changed


def one(number, change):
    """A change of one of the records."""
    return lines(lambda records: [change(r) if i == number else r for i, r in enumerate(records)])


def text(change):
    """A change of the first .csv file."""

    def changed(folder):
        path = min(folder.glob("*.csv"))
        path.write_text(change(path.read_text()))
        return folder

    return changed


def second_rank(change):
    """Another rank beside the first, as `change` makes its records."""

    def changed(folder):
        records = [
            json.loads(line) for line in (folder / "router_trace_rank0.jsonl").read_text().splitlines()
        ]
        writers.write_lines(folder / "router_trace_rank1.jsonl", change(records))
        return folder

    return changed


def choice(response, **fields):
    return {**response, "choices": [{**response["choices"][0], **fields}]}


def activations(change):
    return lambda trace: {**trace, "activations": change(trace["activations"])}


def layers_of(change):
    return lambda record: {**record, "router_layers": change(record["router_layers"])}


MASK, ROUTED, TOPK, MAP = (
    "attention_mask",
    "routed_experts",
    "topk_ids_of_layer",
    "last_physical_to_logical_map",
)
#: format, what is done -> the change of its file
OTHERS = {
    ("verl", "mask a token late"): with_field(MASK, lambda mask: mask.roll(1, 1)),
    ("verl", "mask a token early"): with_field(MASK, lambda mask: mask.roll(-1, 1)),
    ("verl", "experts a token late"): with_field(ROUTED, lambda routed: routed.roll(1, 1)),
    ("verl", "experts a token early"): with_field(ROUTED, lambda routed: routed.roll(-1, 1)),
    ("verl", "layers before tokens"): with_field(ROUTED, lambda routed: routed.transpose(1, 2)),
    ("verl", "k before layers"): with_field(ROUTED, lambda routed: routed.transpose(2, 3)),
    ("verl", "no mask"): with_field(MASK, lambda _: None),
    ("verl", "all is a token"): with_field(MASK, torch.ones_like),
    ("verl", "numbers with a fraction"): with_field(ROUTED, lambda routed: routed + 0.5),
    ("sglang_recorder", "tokens before layers"): passes(TOPK, lambda ids: ids.transpose(0, 1)),
    ("sglang_recorder", "k before tokens"): passes(TOPK, lambda ids: ids.transpose(1, 2)),
    ("sglang_recorder", "one token less"): passes(TOPK, lambda ids: ids[:, 1:]),
    ("sglang_recorder", "one layer less"): passes(TOPK, lambda ids: ids[1:]),
    ("sglang_recorder", "fewer physical experts"): with_field(MAP, lambda mapping: mapping[:, :-1]),
    ("sglang_recorder", "map of another axis"): with_field(MAP, lambda mapping: mapping.T),
    ("sglang_recorder", "no map"): torch_dump(lambda dump: {"records": dump["records"]}),
    ("vllm", "no tokens said"): one(0, lambda r: choice({**r, "usage": None, "prompt_token_ids": None})),
    ("vllm", "prompt two shorter"): one(1, lambda r: {**r, "prompt_token_ids": r["prompt_token_ids"][2:]}),
    ("vllm", "prompt longer"): one(1, lambda r: {**r, "prompt_token_ids": [1, *r["prompt_token_ids"]]}),
    ("vllm", "completion longer"): one(2, lambda r: choice(r, token_ids=[*r["choices"][0]["token_ids"], 5])),
    ("vllm", "cut"): one(2, lambda r: choice(r, routed_experts=r["choices"][0]["routed_experts"][:-8])),
    ("vllm", "one choice without"): one(2, lambda r: choice(r, routed_experts=None)),
    ("vllm", "no choices"): one(1, lambda r: {**r, "choices": []}),
    ("sglang", "one token more"): one(0, lambda r: {"meta_info": {**r["meta_info"], "prompt_tokens": 7}}),
    ("sglang", "one token less"): one(0, lambda r: {"meta_info": {**r["meta_info"], "prompt_tokens": 5}}),
    ("sglang", "no count"): one(
        0, lambda r: {"meta_info": {"routed_experts": r["meta_info"]["routed_experts"]}}
    ),
    ("router_layers", "a layer less"): one(3, layers_of(lambda layers: layers[1:])),
    ("router_layers", "layers in another order"): one(3, layers_of(lambda layers: layers[::-1])),
    ("router_layers", "half an expert"): one(
        3, layers_of(lambda layers: [{**layer, "topk_experts": [0.5, 1]} for layer in layers])
    ),
    ("router_layers", "a layer twice"): one(3, layers_of(lambda layers: [*layers, layers[0]])),
    ("router_layers", "a token less"): lines(lambda records: records[:5] + records[6:]),
    ("router_layers", "a token twice"): lines(lambda records: [*records[:5], *records[4:]]),
    ("router_layers", "documents in pieces"): lines(lambda records: records[5:] + records[:5]),
    ("router_layers", "another model"): one(4, lambda r: {**r, "num_experts": 16}),
    ("router_layers", "another k"): one(4, lambda r: {**r, "top_k": 4}),
    ("router_layers", "another domain"): one(4, lambda r: {**r, "domain": "verse"}),
    ("moe_atlas", "a choice less"): one(1, activations(lambda rows: rows[1:])),
    ("moe_atlas", "a choice twice"): one(1, activations(lambda rows: [*rows, rows[0]])),
    ("moe_atlas", "tokens from 1"): one(
        1, activations(lambda rows: [{**row, "token_idx": row["token_idx"] + 1} for row in rows])
    ),
    ("moe_atlas", "half an expert"): one(
        1, activations(lambda rows: [{**rows[0], "expert_idx": 1.5}, *rows[1:]])
    ),
    ("moe_atlas", "a token less"): one(1, lambda trace: {**trace, "token_ids": trace["token_ids"][1:]}),
    ("moe_atlas", "another k"): one(1, lambda trace: {**trace, "top_k": 1}),
    ("moe_atlas", "another model"): one(1, lambda trace: {**trace, "model_id": "z"}),
    ("llama_csv", "a row less"): text(lambda content: content.rpartition("\n")[0]),
    ("llama_csv", "a row twice"): text(lambda content: f"{content}\n{content.rpartition(chr(10))[2]}"),
    ("llama_csv", "swapped columns"): text(lambda content: content.replace("layer,expert", "expert,layer")),
    ("llama_csv", "no number"): text(lambda content: content.replace("\n0,", "\nzero,", 1)),
    ("llama_csv", "another table"): text(lambda content: content.replace("token,", "count,")),
    ("megatron_core", "a record less"): lines(lambda records: records[:-1]),
    ("megatron_core", "a record twice"): lines(lambda records: [*records, records[-1]]),
    ("megatron_core", "fewer tokens said"): one(2, lambda r: {**r, "num_tokens": r["num_tokens"] - 1}),
    ("megatron_core", "half an expert"): one(
        2, lambda r: {**r, "top_indices": [[1.5, 2], *r["top_indices"][1:]]}
    ),
    ("megatron_core", "another k"): one(2, lambda r: {**r, "topk": 3}),
    ("megatron_core", "a token less"): one(
        2, lambda r: {**r, "num_tokens": r["num_tokens"] - 1, "top_indices": r["top_indices"][1:]}
    ),
    ("megatron_core", "a copy of the rank"): second_rank(lambda records: [{**r, "rank": 1} for r in records]),
    ("megatron_core", "a stage with layers from 0"): second_rank(
        lambda records: [{**r, "top_indices": r["top_indices"][::-1]} for r in records]
    ),
    ("megatron_core", "a stage with fewer layers"): second_rank(
        lambda records: [r for r in records if r["layer"] > 0]
    ),
    ("transformer_lens", "a block without weights"): torch_dump(
        lambda cache: {key: v for key, v in cache.items() if key != "blocks.1.mlp.hook_expert_weights"}
    ),
    ("transformer_lens", "position before batch"): with_field(
        "blocks.1.mlp.hook_expert_indices", lambda values: values.transpose(0, 1)
    ),
    ("transformer_lens", "k before position"): torch_dump(
        lambda cache: {key: v.transpose(1, 2) if "indices" in key else v for key, v in cache.items()}
    ),
    ("transformer_lens", "a token less"): torch_dump(
        lambda cache: {key: v[:, 1:] if "indices" in key else v for key, v in cache.items()}
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "what"), OTHERS)
def test_others(name, what, tmp_path):
    getattr(writers, name)(tmp_path)
    assert not is_silent(OTHERS[name, what](tmp_path), **({"top_k": writers.K} if name == "sglang" else {}))


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
