"""Damaged or meaningless files: one line says what is wrong, and nothing is guessed."""

import gzip
import json
import os
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from modtf.routing import Routing
from modtf.routing.formats.registry import Arrays

EXPERTS: dict[str, Any] = {"experts": np.zeros((2, 16, 3), int), "num_experts": 4}


def safetensors(header):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(8)


def entry(**others):
    return {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **others}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is truncated: its 0 bytes are fewer than its header needs"),
        (b"1234567", "it is truncated: its 7 bytes are fewer"),
        (safetensors([1]), "its header is a list"),
        (safetensors(b"[" * 100_000), "it is nested too deeply"),
        (safetensors({"x": 3}), "the entry 'x' of its header is invalid"),
        (safetensors(entry(shape=[3])), r"'x' has shape \(3,\) in bytes 0 to 8 of 8"),
        (safetensors(entry(data_offsets=[-8, 0])), ".*in bytes -8 to 0 of 8"),
        (safetensors(entry(dtype="F8_E4M3")), "'x' is of type F8_E4M3; save it as one of"),
    ],
)
def test_safetensors(content, words, tmp_path):
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=f"x.safetensors cannot be read as safetensors: {words}"):
        Arrays(tmp_path / "x.safetensors")


def test_bfloat16_in_safetensors(tmp_path):
    values = np.array([[0.5, -2.0]], np.float32).view(np.uint16)[:, 1::2]
    content = safetensors(entry(dtype="BF16", shape=[1, 2], data_offsets=[0, 4]))[:-8] + values.tobytes()
    (tmp_path / "x.safetensors").write_bytes(content)
    np.testing.assert_array_equal(values, np.asarray(Arrays(tmp_path / "x.safetensors")["x"]).view(np.uint16))


STRUCT = pa.struct([("a", pa.int64())])


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (
            [[0], [1, 2, 3]] * 2,
            "row 1 has a list of length 3, but the first has length 1; expected lists of the same length",
        ),
        ([[0, 1], None] * 2, "row 1 holds a null; .* Write -1 for a dropped choice"),
        ([[0, 1], []] * 2, "row 1 has a list of length 0, but the first has length 2"),
        ([[[0], [1]], [[2], [3, 4]]], "row 1 has a list of length 2, but the first has length 1"),
        ([[[0], [1]], [[2], [None]]], "row 1 holds a null"),
        ([[], []], "its lists are empty"),
        (["code", None], "row 1 holds a null"),
        (pa.array([{"a": 1}], STRUCT), r"its type is struct<a: int64>; expected numbers, texts or lists"),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "its type is map<"),
        (pa.array([], pa.int64()), "the file has no rows"),
    ],
)
def test_parquet(column, words, tmp_path):
    parquet.write_table(pa.table({"x": column}), tmp_path / "x.parquet")
    arrays = Arrays(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=f"The array 'x' of .*x.parquet cannot be read: {words}"):
        arrays["x"]


@pytest.mark.parametrize("kind", [pa.list_(pa.int32(), 2), pa.large_list(pa.int8()), pa.list_(pa.float16())])
def test_lists_of_any_kind_in_parquet(kind, tmp_path):
    values = [[0, 1], [2, 3], [4, 5]]
    parquet.write_table(pa.table({"x": pa.array(values, kind)}), tmp_path / "x.parquet")
    np.testing.assert_array_equal(Arrays(tmp_path / "x.parquet")["x"], values)


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"num_experts": 10**9}, "num_experts=1000000000 is not valid; expected an integer of at most 65536"),
        ({"num_experts": "eight"}, "num_experts is 'eight'; expected one integer, such as 8"),
        ({"num_experts": 4.5}, "num_experts is 4.5; expected one integer"),
        (
            {"experts": np.zeros((1, 3, 16, 2), int)},
            r"experts have shape \(1, 3, 16, 2\); expected \[tok",
        ),
        ({"experts": np.zeros((2, 0, 2), int)}, r"x\.npz holds no tokens"),
        (
            {"activations": np.zeros((1, 3, 16, 2))},
            r"have shape \(1, 3, 16, 2\); expected \[tokens, modules\]",
        ),
        (
            {"labels": np.zeros(18, int)},
            "There are 2 fewer tokens, because engines do not route the last token",
        ),
        ({"labels": np.zeros(2, int)}, "Give one for every token"),
        (
            {"labels": np.zeros(2, int), "documents": np.repeat(["a", "b"], 8)},
            "The number fits documents: number documents from 0",
        ),
    ],
)
def test_arrays_that_do_not_fit(others, words, tmp_path):
    np.savez(tmp_path / "x.npz", **{**EXPERTS, **others})
    with pytest.raises(ValueError, match=words):
        Routing.read(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"token": 0, "layer": 0, "expert": [True, 0]}, "true or false among numbers"),
        ({"experts": [[0, True], [1, 0]], "num_experts": 2}, "true or false among numbers"),
    ],
)
def test_true_is_not_the_number_1(record, words, tmp_path):
    (tmp_path / "x.jsonl").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=words):
        Routing.read(tmp_path / "x.jsonl")


def test_a_compressed_file_that_unpacks_to_far_more_is_refused(tmp_path, monkeypatch):
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(bytes(1 << 22)))
    monkeypatch.setattr("modtf.base.files.LARGE", 1 << 20)
    with pytest.raises(ValueError, match=r"x\.jsonl\.gz would unpack from .* bytes"):
        Routing.read(tmp_path)


def test_a_named_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "x.npz")
    with pytest.raises(ValueError, match=r"x\.npz is a pipe or a device; expected a file or a folder"):
        Arrays(tmp_path / "x.npz")
