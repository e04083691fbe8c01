"""Router traces of Megatron Core: ranks in the order of their numbers, copies left out, layers aligned."""

import json

import numpy as np
import pytest

from modtf.routing import Routing
from modtf.routing.formats.registry import Arrays
from modtf.routing.measuring import Experts

TOKENS, EXPERTS, K = 6, 8, 2  # tokens of a record


def bfloat16(values):
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def record(experts, layer, rank=0, step=0, block="decoder", **others):
    where = {"step": step, "stage": "pre_dispatch", "block": block, "layer": layer, "rank": rank}
    return {**where, "num_tokens": len(experts), "topk": K, "top_indices": experts.tolist(), **others}


def chosen(seed, tokens=TOKENS):
    generator = np.random.default_rng(seed)
    return generator.permuted(np.tile(np.arange(EXPERTS), (tokens, 1)), axis=1)[:, :K]


def write(folder, ranks):
    folder.mkdir(exist_ok=True)
    for rank, lines in enumerate(ranks):
        (folder / f"router_trace_rank{rank}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def read(folder):
    return Arrays(folder)["experts"]


def test_ranks_are_joined_by_their_numbers(tmp_path):
    """Twelve data-parallel ranks, two steps of two layers each, as `RouterTracer` writes them."""
    experts = np.stack([[[chosen((r, s, n)) for n in (0, 1)] for s in (0, 1)] for r in range(12)])
    ranks = [[record(experts[r, s, n], 3 + n, r, s) for s in (0, 1) for n in (0, 1)] for r in range(12)]
    with pytest.warns(UserWarning, match="12 ranks have the same layer numbers"):
        routing = Routing.read(write(tmp_path, ranks), num_experts=EXPERTS)
    assert isinstance(routing.activations, Experts)
    np.testing.assert_array_equal(routing.activations.experts, np.moveaxis(experts, 2, 0).reshape(2, -1, K))
    assert routing.names.layers == ("decoder 3", "decoder 4")


def test_logits(tmp_path):
    logits = np.random.default_rng(0).normal(size=(2, 2 * TOKENS, EXPERTS))
    parts = [bfloat16(layer).tobytes() for layer in logits]
    where = [
        {"logit_offset": i * len(parts[0]), "logit_bytes": len(part), "logit_shape": logits[0].shape}
        for i, part in enumerate(parts)
    ]
    write(tmp_path, [[record(chosen(i, 2 * TOKENS), i, **where[i]) for i in (0, 1)]])
    (tmp_path / "logits_rank0.bin").write_bytes(b"".join(parts))
    np.testing.assert_array_equal(Arrays(tmp_path)["activations"].view(np.uint16), bfloat16(logits))
    for names in ({"experts": "experts"}, {"top_k": K}):  # a warning would be an error
        assert Routing.read(tmp_path, **names).activations.shape == (2, 2 * TOKENS, EXPERTS)
    with pytest.warns(UserWarning, match=f"holds top_k = {K}, which is not used. Give --top_k={K}"):
        Routing.read(tmp_path)


def test_copies_are_left_out(tmp_path):
    """Tensor-parallel ranks hold the same tokens; a layer that is computed again writes its record again."""
    lines = [record(chosen(n), n) for n in (0, 1)]
    write(tmp_path, [[*lines, lines[1], lines[0]], lines])
    with (
        pytest.warns(UserWarning, match="2 records of router_trace_rank0.jsonl repeat another"),
        pytest.warns(UserWarning, match="1 of 2 files hold the same routing as another"),
    ):
        experts = read(tmp_path)
    np.testing.assert_array_equal(experts, [chosen(0), chosen(1)])


def test_pipeline_stages_with_numbers_of_their_own(tmp_path):
    write(tmp_path, [[record(chosen(0), 0)], [record(chosen(1), 1)]])
    np.testing.assert_array_equal(read(tmp_path), [chosen(0), chosen(1)])
    write(tmp_path, [[record(chosen(0), 1)], [record(chosen(n), n) for n in (0, 1)]])  # the first was dense
    with (
        pytest.warns(UserWarning, match="If the ranks are pipeline stages"),
        pytest.raises(ValueError, match="decoder 0 routed 6 tokens in 1 records, decoder 1 12 in 2"),
    ):
        read(tmp_path)


def test_layers_of_other_steps_are_not_aligned(tmp_path):
    """A stage that lost its first step and wrote one more has as many tokens, but other ones."""
    lines = [
        record(chosen(2 * step + layer), layer, step=step) for step, layer in ((0, 0), (1, 0), (1, 1), (2, 1))
    ]
    with pytest.raises(ValueError, match=r"decoder 1 12 in 2, or in other steps. Trace all layers in all"):
        read(write(tmp_path, [lines]))


def test_a_shorter_layer_that_predicts_several_tokens_is_left_out(tmp_path):
    lines = [record(chosen(0), 0), record(chosen(1, TOKENS - 1), 0, block="mtp", mtp_idx=0)]
    with pytest.warns(UserWarning, match="mtp 0, 0 did not route the same tokens as decoder 0"):
        np.testing.assert_array_equal(read(write(tmp_path, [lines])), [chosen(0)])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2 of t.jsonl is not valid JSON"),
        ("3", "line 2 of t.jsonl is a int; expected a JSON object"),
        ("[" * 100_000, "line 2 of t.jsonl is not valid JSON: it is nested too deeply"),
        ('{"block": "decoder"}', "line 2 of t.jsonl lacks layer, num_tokens, top_indices"),
        (json.dumps(record(chosen(0), 0) | {"num_tokens": 5}), r"shape \(6, 2\); expected \(5, 2\)"),
        (json.dumps(record(chosen(0), 0) | {"top_indices": [[1], [2, 3]]}), "is not a record of a trace"),
    ],
)
def test_a_line_that_is_not_of_a_trace(line, words, tmp_path):
    (tmp_path / "t.jsonl").write_text(f"{json.dumps(record(chosen(0), 0))}\n{line}\n")
    with pytest.raises(ValueError, match=words):
        Arrays(tmp_path / "t.jsonl")
