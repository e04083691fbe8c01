"""Small files in the layout of each format's writer, all with the same routing."""

import base64
import io
import json
import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet

LAYERS, EXPERTS, K = 3, 8, 2
SIZES = (20, 32, 25)  # tokens of documents
DOCUMENTS = np.repeat(np.arange(len(SIZES)), SIZES)
DOMAINS = ("code", "law", "code")
_generator = np.random.default_rng(0)
SCORES = _generator.dirichlet(np.ones(EXPERTS), size=(LAYERS, len(DOCUMENTS)))
CHOSEN = np.argsort(-SCORES, axis=-1)[..., :K]  # [layers, tokens, k]
WEIGHTS = np.take_along_axis(SCORES, CHOSEN, axis=-1)
TOKENS = _generator.integers(100, 1000, size=len(DOCUMENTS))
LAST = 7  # the last token of each document, which engines do not route
COUNTS = np.stack(
    [[np.bincount(layer[d == DOCUMENTS].ravel(), minlength=EXPERTS) for layer in CHOSEN] for d in range(3)]
)


ARRAYS: dict[str, Any] = {
    "experts": CHOSEN,
    "weights": WEIGHTS.astype(np.float32),
    "tokens": TOKENS,
    "documents": DOCUMENTS,
}


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


def documents():
    """Yield experts, weights `[tokens, layers, k]` and tokens of each document."""
    for number in range(len(SIZES)):
        of = number == DOCUMENTS
        yield np.moveaxis(CHOSEN[:, of], 0, 1), np.moveaxis(WEIGHTS[:, of], 0, 1), TOKENS[of]


def npy64(array):
    with io.BytesIO() as file:
        np.save(file, array)
        return base64.b64encode(file.getvalue()).decode()


def write_lines(path, records):
    path.write_text("\n".join(map(json.dumps, records)) + "\n")
    return path


def vllm_response(experts, tokens, prompt=6):
    ids = [*tokens.tolist(), LAST]
    choice = {"index": 0, "token_ids": ids[prompt:], "routed_experts": npy64(experts.astype(np.uint8))}
    usage = {"prompt_tokens": prompt, "completion_tokens": len(ids) - prompt}
    return {
        "object": "text_completion",
        "choices": [choice],
        "prompt_token_ids": ids[:prompt],
        "usage": usage,
    }


def vllm(folder):
    return write_lines(folder / "vllm.jsonl", [vllm_response(e, t) for e, _, t in documents()])


def vllm_objects(_):
    found = []
    for experts, _, tokens in documents():
        output = SimpleNamespace(token_ids=[*tokens[6:], LAST], routed_experts=experts.astype(np.int32))
        found.append(SimpleNamespace(prompt_token_ids=tokens[:6].tolist(), outputs=[output]))
    return found


def vllm_split(folder):
    """Return prompt and completion separately, as versions before 0.22 do."""
    responses = [vllm_response(e, t) for e, _, t in documents()]
    for response, (experts, *_) in zip(responses, documents(), strict=True):
        response["prompt_routed_experts"] = experts[:6].tolist()
        response["choices"][0]["routed_experts"] = experts[6:].tolist()
    return write_lines(folder / "split.jsonl", responses)


def sglang(folder):
    lines = []
    for experts, _, tokens in documents():
        routed = base64.b64encode(experts.astype(np.int32).tobytes()).decode()
        meta = {"prompt_tokens": 6, "completion_tokens": len(tokens) - 5, "routed_experts": routed}
        lines.append({"text": "...", "meta_info": meta})
    return write_lines(folder / "sglang.jsonl", lines)


#: physical expert -> logical one, of each layer: two copies of the first
PHYSICAL = np.stack([np.random.default_rng(n).permutation([*range(EXPERTS), 0]) for n in range(LAYERS)])


def physical(layer, experts):
    """Map logical experts to physical ones; of two copies take the first."""
    return np.array([int(np.flatnonzero(PHYSICAL[layer] == e)[0]) for e in experts.ravel()]).reshape(
        experts.shape
    )


def sglang_passes():
    """Records of the per-token recorder: a pass for each prompt; of eight columns the model fills k."""
    for number, (experts, _, tokens) in enumerate(documents()):
        ids = np.full((LAYERS, len(tokens), 8), -1)
        ids[..., :K] = [physical(layer, experts[:, layer]) for layer in range(LAYERS)]
        yield {
            "forward_pass_id": number, "rank": 0, "gatherer_key": "primary", "input_ids": tokens.tolist(),
            "positions": list(range(len(tokens))), "extend_seq_lens": [len(tokens)], "forward_mode": 1,
            "topk_ids_of_layer": torch.tensor(ids, dtype=torch.int32), "misc_objects": [],
            "global_physical_count": torch.zeros(LAYERS, EXPERTS + 1, dtype=torch.int32),
        }  # fmt: skip


def sglang_recorder(folder):
    path = folder / "expert_distribution_recorder_1.5_0.pt"
    dump = {"records": list(sglang_passes()), "last_physical_to_logical_map": torch.tensor(PHYSICAL)}
    torch.save(dump, path)
    return path


def sglang_per_pass(folder):
    """Counts of physical experts: of an expert with two copies each gets a part."""
    counts = np.zeros((len(SIZES), LAYERS, EXPERTS + 1), np.int32)
    for layer in range(LAYERS):
        for expert in range(EXPERTS):
            first, *more = np.flatnonzero(PHYSICAL[layer] == expert)
            counts[:, layer, first] = COUNTS[:, layer, expert]
            for copy in more:
                counts[:, layer, copy] = counts[:, layer, first] // 3
                counts[:, layer, first] -= counts[:, layer, copy]
    records = [
        {"forward_pass_id": n, "rank": 0, "global_physical_count": torch.tensor(c)}
        for n, c in enumerate(counts)
    ]
    path = folder / "expert_distribution_recorder_1.5_0.pt"
    torch.save({"records": records, "last_physical_to_logical_map": torch.tensor(PHYSICAL)}, path)
    return path


def sglang_stat(folder):
    path = folder / "expert_distribution_recorder_1.5.pt"
    torch.save({"rank": 0, "logical_count": torch.tensor(COUNTS, dtype=torch.int32)}, path)
    return path


def verl_batch():
    """Prompts padded on the left, completions on the right; the last token of a row is not routed."""
    length = 40
    routed = torch.zeros(len(SIZES), length, LAYERS, K, dtype=torch.int32)
    mask, ids = (
        torch.zeros(len(SIZES), length, dtype=torch.int64),
        torch.zeros(len(SIZES), length, dtype=torch.int64),
    )
    for row, (experts, _, tokens) in enumerate(documents()):
        start = 2 + row
        routed[row, start : start + len(experts)] = torch.tensor(experts)
        mask[row, start : start + len(tokens) + 1] = 1
        ids[row, start : start + len(tokens) + 1] = torch.tensor([*tokens, LAST])
    return {"routed_experts": routed, "attention_mask": mask, "input_ids": ids}


def verl(folder):
    torch.save(verl_batch(), folder / "batch.pt")
    return folder / "batch.pt"


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
            where = {
                "run_id": "r",
                "prompt_id": f"p{number}",
                "domain": DOMAINS[number],
                "num_experts": EXPERTS,
                "top_k": K,
            }
            lines.append(
                {
                    **where,
                    "generated_token_index": index,
                    "generated_token_id": token,
                    "router_layers": layers,
                }
            )
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
