"""Small files in the layout of each format's writer, all with the same routing."""

import csv
import gzip
import io
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


def token_rows():
    """Return a row for each token: lists over layers and k, and labels as names."""
    lists = {"experts": np.moveaxis(CHOSEN, 0, 1).tolist(), "weights": np.moveaxis(WEIGHTS, 0, 1).tolist()}
    of_tokens = {"tokens": TOKENS.tolist(), "document": DOCUMENTS.tolist()}
    columns = lists | of_tokens | {"label": np.array(DOMAINS)[DOCUMENTS].tolist()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def choice_rows(is_list=False):
    """Return a row for each choice of a token in a layer, or one with all its choices."""
    return [
        {"document": f"text {number}", "token": t, "layer": n, "slot": s, "expert": e, "weight": w,
         "token_id": int(tokens[t]), "label": DOMAINS[number], "time": 9 * t + n + s}
        for number, (experts, weights, tokens) in enumerate(documents())
        for t in range(len(tokens)) for n in range(LAYERS)
        for s, (e, w) in enumerate([(experts[t, n].tolist(), weights[t, n].tolist())] if is_list
                                   else zip(experts[t, n].tolist(), weights[t, n].tolist(), strict=True))
    ]  # fmt: skip


def count_rows():
    return [
        {"document": d, "label": DOMAINS[d], "layer": n, "expert": e, "count": int(COUNTS[d, n, e])}
        for d in range(len(SIZES)) for n in range(LAYERS) for e in range(EXPERTS)
    ]  # fmt: skip


def written(path, rows):
    """Write rows as the file's ending says."""
    with gzip.open(path, "wb") if path.suffix == ".gz" else path.open("wb") as file:
        if ".parquet" in path.name:
            parquet.write_table(pa.Table.from_pylist(rows), file)
        elif ".jsonl" in path.name:
            file.write("\n".join(map(json.dumps, rows)).encode())
        else:
            with io.TextIOWrapper(file, newline="") as text:
                text.write("# a comment\n")
                writer = csv.DictWriter(text, rows[0])
                writer.writeheader()
                writer.writerows(rows)
    return path


def parquet_lists(folder):
    return written(folder / "x.parquet", token_rows())


def csv_choices(folder):
    return written(folder / "x.csv", choice_rows())


def csv_of_documents(folder):
    """A file for each document, without a column that says so."""
    rows = [row | {"label": DOMAINS.index(row["label"])} for row in choice_rows()]
    for number in range(len(SIZES)):
        some = [row for row in rows if row["document"] == f"text {number}"]
        written(
            folder / f"trace{number}.csv", [{n: v for n, v in row.items() if n != "document"} for row in some]
        )
    return folder


def jsonl_lists(folder):
    return written(folder / "x.jsonl.gz", token_rows())


def jsonl_layers(folder):
    return written(folder / "x.jsonl", choice_rows(is_list=True))


def rows_in_memory(_):
    return choice_rows()


def csv_counts(folder):
    return written(folder / "x.csv", count_rows())


def jsonl_counts(folder):
    """A row for each document: lists over layers and experts."""
    return written(
        folder / "x.jsonl", [{"counts": one.tolist(), "label": DOMAINS[n]} for n, one in enumerate(COUNTS)]
    )


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
