"""Small files in the layout of each format's writer, all with the same routing."""

import json
import struct
from typing import Any

import numpy as np
import pyarrow as pa
from engine_writers import *  # noqa: F403  # the tests find all writers here
from engine_writers import (
    ARRAYS,
    CHOSEN,
    COUNTS,
    DOCUMENTS,
    DOMAINS,
    EXPERTS,
    LAYERS,
    SCORES,
    SIZES,
    TOKENS,
    WEIGHTS,
    K,
    documents,
    torch,
    write_lines,
)
from pyarrow import parquet


def npz(folder):
    np.savez(folder / "x.npz", **ARRAYS)
    return folder / "x.npz"


def safetensors(folder):
    """The length of a header, the header, the numbers."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, array in ARRAYS.items():
        begin, data = len(data), data + array.tobytes()
        kind = {"int64": "I64", "float32": "F32"}[array.dtype.name]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    (folder / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder / "x.safetensors"


def parquet_lists(folder):
    """Lists over layers and k, and labels as names."""
    columns = {n: np.moveaxis(a, 1, 0).tolist() if a.ndim == 3 else a for n, a in ARRAYS.items()}
    table = pa.table({**columns, "labels": np.array(DOMAINS)[DOCUMENTS]})
    parquet.write_table(table, folder / "x.parquet")
    return folder / "x.parquet"


def router_logits(_):
    """Return a model's output with its batch, which has padding."""
    length = max(SIZES)
    logits = np.zeros((LAYERS, len(SIZES), length, EXPERTS), np.float32)
    mask, ids = np.zeros((len(SIZES), length), int), np.zeros((len(SIZES), length), int)
    for row, size in enumerate(SIZES):
        logits[:, row, :size] = np.log(SCORES[:, row == DOCUMENTS])
        mask[row, :size], ids[row, :size] = 1, TOKENS[row == DOCUMENTS]
    layers = tuple(torch.tensor(layer.reshape(-1, EXPERTS)) for layer in logits)
    return {"router_logits": layers, "attention_mask": torch.tensor(mask), "input_ids": torch.tensor(ids)}


def transformer_lens(folder):
    """One batch of one text: indices [batch, position, k]; weights of all experts, before the top k."""
    cache = {}
    for layer in range(LAYERS):
        cache[f"blocks.{layer}.mlp.hook_expert_indices"] = torch.tensor(CHOSEN[layer][np.newaxis])
        cache[f"blocks.{layer}.mlp.hook_expert_weights"] = torch.tensor(SCORES[layer][np.newaxis])
        cache[f"blocks.{layer}.hook_resid_post"] = torch.zeros(1, len(TOKENS), 4)
    torch.save(cache, folder / "cache.pt")
    return folder / "cache.pt"


def flame(folder):
    actives, samples = folder / "actives" / "iter_5473", folder / "samples"
    actives.mkdir(parents=True)
    samples.mkdir()
    for layer in range(LAYERS):
        indices = pa.array(CHOSEN[layer].tolist(), pa.list_(pa.int16()))
        scores = pa.array(WEIGHTS[layer].astype(np.float16).tolist(), pa.list_(pa.float16()))
        parquet.write_table(
            pa.table({"scores": scores, "indices": indices}), actives / f"layer_{layer + 9:02}.parquet"
        )
    for part, tokens in enumerate(np.array_split(TOKENS, 11)):
        parquet.write_table(
            pa.table({"token_id": pa.array(tokens, pa.int32())}), samples / f"{part:03}.parquet"
        )
    return actives


def llama_csv(folder):
    """A row for each choice; a file for each document."""
    for number, (experts, *_) in enumerate(documents()):
        rows = [
            f"{t},{n},{e},{t * 9}"
            for t, token in enumerate(experts)
            for n, layer in enumerate(token)
            for e in layer
        ]
        (folder / f"trace{number}.csv").write_text("\n".join(["token,layer,expert,t_ns", *rows]))
    return folder


def llama_counts(folder):
    for number, document in enumerate(COUNTS):
        rows = [f"{n},{e},{c}" for n, layer in enumerate(document) for e, c in enumerate(layer)]
        (folder / f"usage{number}.csv").write_text("\n".join(["layer,expert,count", *rows, "# total,0"]))
    return folder


def moe_atlas(folder):
    """A trace for each text, its activations layer by layer."""
    lines = []
    for number, (experts, weights, tokens) in enumerate(documents()):
        activations = [
            {"layer": n, "token_idx": t, "expert_idx": int(e), "gate_weight": float(w)}
            for n in range(LAYERS) for t in range(len(tokens))
            for e, w in zip(experts[t, n], weights[t, n], strict=True)
        ]  # fmt: skip
        sizes = {"num_layers": LAYERS, "num_experts": EXPERTS, "top_k": K, "domain": DOMAINS[number]}
        lines.append({"model_id": "x/y", **sizes, "token_ids": tokens.tolist(), "activations": activations})
    return write_lines(folder / "moe_atlas_export.jsonl", lines)


def router_layers(folder):
    lines = []
    for number, (experts, weights, tokens) in enumerate(documents()):
        for index, token in enumerate(tokens.tolist()):
            layers = [
                {"topk_experts": e.tolist(), "topk_probs": w.tolist(), "full_entropy": 1.5, "layer": n}
                for n, (e, w) in enumerate(zip(experts[index], weights[index], strict=True))
            ]
            where = {"generated_token_index": index, "generated_token_id": token}
            of = {"run_id": "r", "prompt_id": f"p{number}", "domain": DOMAINS[number]}
            sizes = {"num_experts": EXPERTS, "top_k": K}
            lines.append({**of, **sizes, **where, "router_layers": layers})
    return write_lines(folder / "decode.jsonl", lines)


def gguf(fields, tensors):
    """A GGUF file: texts as fields, float32 tensors whose shapes are written in the order of GGML."""
    text = lambda value: struct.pack("<Q", len(value)) + value.encode()  # noqa: E731
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    for name, value in fields.items():
        is_text = isinstance(value, str)
        head += text(name) + (struct.pack("<I", 8) + text(value) if is_text else struct.pack("<II", 4, value))
    data = b""
    for name, values in tensors.items():
        shape = values.shape[::-1]
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += values.astype("<f4").tobytes()
        data += bytes(-len(data) % 32)
    return head + bytes(-len(head) % 32) + data


def imatrix(folder):
    for number, document in enumerate(COUNTS):
        tensors = {"output.weight.counts": np.ones((1, 1))}
        for layer, counts in enumerate(document):
            for name in ("down", "up"):
                tensors[f"blk.{layer}.ffn_{name}_exps.weight.in_sum2"] = np.ones((EXPERTS, 5))
                tensors[f"blk.{layer}.ffn_{name}_exps.weight.counts"] = counts[:, np.newaxis]
        fields = {"general.type": "imatrix", "imatrix.chunk_count": 1, "imatrix.chunk_size": 512}
        (folder / f"domain{number}.gguf").write_bytes(gguf(fields, tensors))
    return folder


def layer_counts(folder):
    for number, document in enumerate(COUNTS):
        layers = [
            {"layer": n, "layer_label": f"L{n:02}", "counts": c.tolist()} for n, c in enumerate(document)
        ]
        model = {"num_experts": EXPERTS, "num_layers": LAYERS, "top_k_experts": K}
        content = {"schema_version": 1, "label": f"domain{number}", "model": model, "layers": layers}
        (folder / f"routing_trace_{number}.json").write_text(json.dumps(content))
    return folder


def megatron_core(folder):
    """Two steps of one rank: the first document, then the others."""
    lines = []
    for step, some in enumerate(np.split(np.arange(len(TOKENS)), [SIZES[0]])):
        for layer in range(LAYERS):
            where = {"step": step, "stage": "pre_dispatch", "block": "decoder", "layer": layer, "rank": 0}
            lines.append(
                {**where, "num_tokens": len(some), "topk": K, "top_indices": CHOSEN[layer, some].tolist()}
            )
    return write_lines(folder / "router_trace_rank0.jsonl", lines)
