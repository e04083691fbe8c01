"""The routing that all writers write, and small files in the layout of engines: vLLM, SGLang and verl."""

import base64
import io
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install '.[hf]'")

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
ARRAYS: dict[str, Any] = {"experts": CHOSEN, "weights": WEIGHTS.astype(np.float32)}
ARRAYS |= {"tokens": TOKENS, "documents": DOCUMENTS}


def documents():
    """Yield experts, weights `[tokens, layers, k]` and tokens of each document."""
    for number in range(len(SIZES)):
        of = number == DOCUMENTS
        yield np.moveaxis(CHOSEN[:, of], 0, 1), np.moveaxis(WEIGHTS[:, of], 0, 1), TOKENS[of]


def write_lines(path, records):
    path.write_text("\n".join(map(json.dumps, records)) + "\n")
    return path


def npy64(array):
    with io.BytesIO() as file:
        np.save(file, array)
        return base64.b64encode(file.getvalue()).decode()


def vllm_response(experts, tokens, prompt=6):
    ids = [*tokens.tolist(), LAST]
    choice = {"index": 0, "token_ids": ids[prompt:], "routed_experts": npy64(experts.astype(np.uint8))}
    usage = {"prompt_tokens": prompt, "completion_tokens": len(ids) - prompt}
    request = {"prompt_token_ids": ids[:prompt], "usage": usage}
    return {"object": "text_completion", "choices": [choice], **request}


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
    mask, ids = torch.zeros(2, len(SIZES), length, dtype=torch.int64)
    for row, (experts, _, tokens) in enumerate(documents()):
        start = 2 + row
        routed[row, start : start + len(experts)] = torch.tensor(experts)
        mask[row, start : start + len(tokens) + 1] = 1
        ids[row, start : start + len(tokens) + 1] = torch.tensor([*tokens, LAST])
    return {"routed_experts": routed, "attention_mask": mask, "input_ids": ids}


def verl(folder):
    torch.save(verl_batch(), folder / "batch.pt")
    return folder / "batch.pt"
