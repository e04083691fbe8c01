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


@pytest.mark.parametrize("name", ["x.safetensors", "x.parquet", "x.npz"])
def test_files_that_are_something_else(name, tmp_path):
    (tmp_path / name).write_bytes(b"\xff" * 20)
    with pytest.raises(ValueError, match=f"{name} cannot be read"):
        Arrays(tmp_path / name)


def test_experts_need_their_number(routed, tmp_path):
    with pytest.raises(ValueError, match="Give --num_experts=E"):
        measured(write_npz(tmp_path / "x", routed), tmp_path / "out")
    with pytest.raises(ValueError, match="--shared=a is not valid"):
        measured(write_npz(tmp_path / "x", routed), tmp_path / "out", "--num_experts=6", "--shared=a")
