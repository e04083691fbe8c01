"""`modtf measure` reads what frameworks write: the same tokens in any file give the same numbers."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from absl import flags
from pyarrow import parquet

from modtf.launch.measure import define_flags, main
from modtf.routing import Routing
from modtf.routing.formats.arrays import Arrays
from modtf.routing.routing import Sent

LAYERS, TOKENS, EXPERTS, K = 2, 400, 6, 2


@pytest.fixture(scope="module")
def routed():
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=TOKENS)
    logits = generator.normal(size=(LAYERS, TOKENS, EXPERTS)) + 2 * np.eye(3, EXPERTS)[labels]
    experts = np.argsort(-logits, axis=-1)[..., :K].astype(np.int32)
    weights = np.take_along_axis(np.exp(logits), experts, axis=-1).astype(np.float32)
    return {"experts": experts, "weights": weights, "labels": labels, "documents": np.arange(TOKENS) // 4}


def bfloat16(values):
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def write_npz(path, routed):
    np.savez(path.with_suffix(".npz"), **routed)
    return path.with_suffix(".npz")


def write_safetensors(path, routed):
    """By the definition of the format: the length of a header, the header, the numbers."""
    kinds = {"int32": "I32", "int64": "I64", "float32": "F32"}
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, array in routed.items():
        begin, data = len(data), data + array.tobytes()
        header[name] = {
            "dtype": kinds[array.dtype.name],
            "shape": array.shape,
            "data_offsets": [begin, len(data)],
        }
    text = json.dumps(header).encode()
    path.with_suffix(".safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path.with_suffix(".safetensors")


def write_parquet(path, routed):
    columns = {n: np.moveaxis(a, 1, 0).tolist() if a.ndim == 3 else a for n, a in routed.items()}
    parquet.write_table(pa.table(columns), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def measured(path, out, *given):
    values = flags.FlagValues()
    define_flags(values)
    values(["measure.py", f"--activations={path}", f"--out={out}", "--permutations=5", *given])
    main(values)
    return pd.read_csv(out / "measures.csv")


@pytest.mark.parametrize("write", [write_npz, write_safetensors, write_parquet])
def test_experts_of_any_file(write, routed, tmp_path):
    path = write(tmp_path / "routed", routed)
    found = measured(path, tmp_path / "out", f"--num_experts={EXPERTS}")
    gates = np.zeros((LAYERS, TOKENS, EXPERTS))
    share = routed["weights"] / routed["weights"].sum(axis=-1, keepdims=True, dtype=np.float64)
    np.put_along_axis(gates, routed["experts"], share, axis=-1)
    np.savez(tmp_path / "gates.npz", activations=gates, **{n: routed[n] for n in ("labels", "documents")})
    expected = measured(tmp_path / "gates.npz", tmp_path / "expected", f"--top_k={K}")
    pd.testing.assert_frame_equal(found, expected, rtol=1e-6)


def test_names_in_parquet(routed, tmp_path):
    named = {**routed, "labels": np.array(["code", "law", "verse"])[routed["labels"]]}
    routing = Routing.read(write_parquet(tmp_path / "routed", named), num_experts=EXPERTS)
    assert routing.names.labels == ("code", "law", "verse")
    np.testing.assert_array_equal(routing.labels, routed["labels"])


def test_bfloat16_in_safetensors(tmp_path):
    values = np.array([[0.5, -2.0], [1.5, 3.0]])
    text = json.dumps({"x": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bfloat16(values).tobytes())
    np.testing.assert_array_equal(bfloat16(values), np.asarray(Arrays(path)["x"]).view(np.uint16))


def write_trace(folder, experts, logits, steps=2):
    """Two ranks with half of the tokens each, as Megatron Core's documentation has it."""
    folder.mkdir()
    for rank, tokens in enumerate(np.split(np.arange(TOKENS), 2)):
        lines, binary = [], b""
        for step, some in enumerate(np.split(tokens, steps)):
            for layer in range(LAYERS):
                part = bfloat16(logits[layer, some]).tobytes()
                where = {"step": step, "stage": "pre_dispatch", "block": "decoder", "layer": 3 + layer}
                routed = {"num_tokens": len(some), "topk": K, "top_indices": experts[layer, some].tolist()}
                shape = {"logit_bytes": len(part), "logit_shape": [len(some), EXPERTS]}
                lines.append({**where, "rank": rank, **routed, "logit_offset": len(binary), **shape})
                binary += part
        (folder / f"trace_rank{rank}.jsonl").write_text("\n".join(map(json.dumps, lines)))
        (folder / f"logits_rank{rank}.bin").write_bytes(binary)
    return folder


def test_traces_of_megatron_core(routed, tmp_path):
    logits = np.random.default_rng(1).normal(size=(LAYERS, TOKENS, EXPERTS))
    folder = write_trace(tmp_path / "trace", routed["experts"], logits)
    np.save(tmp_path / "labels.npy", routed["labels"])
    given = f"--labels={tmp_path / 'labels.npy'}"
    routing = Routing.read(folder, labels=str(tmp_path / "labels.npy"), experts="experts")
    assert isinstance(routing.activations, Sent)
    np.testing.assert_array_equal(routing.activations.experts, routed["experts"])
    assert routing.activations.num_experts == EXPERTS
    assert routing.names.layers == ("decoder 3", "decoder 4")
    np.testing.assert_array_equal(Arrays(folder)["activations"].view(np.uint16), bfloat16(logits))
    found = measured(folder, tmp_path / "out", given, "--experts=experts")
    by_mass = found.query("by == 'mass'").drop(columns="by").reset_index(drop=True)
    by_choice = found.query("by == 'hard'").drop(columns="by").reset_index(drop=True)
    pd.testing.assert_frame_equal(by_mass, by_choice)  # a trace says no weights
    assert len(measured(folder, tmp_path / "logits", given, "--logits", f"--top_k={K}")) == len(found)


@pytest.mark.parametrize(
    ("line", "words"),
    [("{}", "line 1 of t.jsonl .* lacks block"), ("[", "line 1 of t.jsonl"), ("3", "line 1 of t.jsonl")],
)
def test_lines_that_are_none_of_a_trace(line, words, tmp_path):
    (tmp_path / "t.jsonl").write_text(line)
    with pytest.raises(ValueError, match=words):
        Arrays(tmp_path / "t.jsonl")


@pytest.mark.parametrize("name", ["x.safetensors", "x.parquet", "x.npz"])
def test_files_that_are_something_else(name, tmp_path):
    (tmp_path / name).write_bytes(b"\xff" * 20)
    with pytest.raises(ValueError, match=f"{name} is no"):
        Arrays(tmp_path / name)


def test_experts_need_their_number(routed, tmp_path):
    with pytest.raises(ValueError, match="Give --num_experts=E"):
        measured(write_npz(tmp_path / "x", routed), tmp_path / "out")
    with pytest.raises(ValueError, match="--shared=a is no number"):
        measured(write_npz(tmp_path / "x", routed), tmp_path / "out", "--num_experts=6", "--shared=a")
