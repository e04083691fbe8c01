"""Every format, on a small file as its writer makes it: the same routing from each."""

# mypy: disable-error-code="union-attr,arg-type"

import base64
import warnings

import format_writers as writers
import numpy as np
import pytest
import torch

import modtf
from modtf.routing.formats.registry import Arrays
from modtf.routing.measuring import Experts, Gates
from modtf.routing.measuring.activations import Counted

GIVEN = {"sglang": {"top_k": writers.K}}  # arguments that a format does not store
TABLES = ("parquet_lists", "csv_choices", "csv_of_documents", "jsonl_lists", "jsonl_layers", "rows_in_memory")
BY_TOKEN = {
    "vllm": "vllm", "vllm_objects": "vllm", "vllm_split": "vllm", "sglang": "sglang", "verl": "verl",
    "sglang_recorder": "sglang_recorder", "transformer_lens": "transformer_lens", "flame": "flame",
    "megatron_core": "megatron_core", "npz": "npz", "safetensors": "safetensors",
    **dict.fromkeys(TABLES, "table"),
}  # fmt: skip
COUNTED = {
    "sglang_per_pass": "sglang_recorder", "sglang_stat": "sglang_recorder", "imatrix": "imatrix",
    "csv_counts": "table", "jsonl_counts": "table",
}  # fmt: skip
KNOW_NO_DOCUMENTS = {"flame", "megatron_core", "transformer_lens"}  # the test's cache is one text
KNOW_TOKENS = {"vllm", "vllm_objects", "vllm_split", "sglang_recorder", "verl", "flame"}
KNOW_TOKENS |= {"npz", "safetensors", *TABLES}
KNOW_WEIGHTS = {"flame", "transformer_lens", "npz", "safetensors", *TABLES}


@pytest.mark.parametrize("name", BY_TOKEN)
def test_tokens(name, tmp_path):
    thing = getattr(writers, name)(tmp_path)
    assert Arrays(thing, **GIVEN.get(name, {})).format == BY_TOKEN[name]
    routing = modtf.read_routing(thing, num_experts=writers.EXPERTS, **GIVEN.get(name, {}))
    assert isinstance(routing.activations, Experts)
    np.testing.assert_array_equal(routing.activations.experts, writers.CHOSEN)
    if name not in KNOW_NO_DOCUMENTS:
        np.testing.assert_array_equal(routing.documents, writers.DOCUMENTS)
    assert ("token" in routing.factors) == (name in KNOW_TOKENS)
    if name in KNOW_TOKENS:
        np.testing.assert_array_equal(routing.factors["token"], writers.TOKENS)
    assert len(routing.measure(permutations=0)) == writers.LAYERS
    assert (routing.activations.weights is not None) == (name in KNOW_WEIGHTS)
    if name in KNOW_WEIGHTS:
        mass = routing.layers[0].read(slice(None))[0].weights
        expected = writers.WEIGHTS[0] / writers.WEIGHTS[0].sum(axis=1, keepdims=True)
        np.testing.assert_allclose(mass, expected, rtol=2e-3)  # FLAME has float16


@pytest.mark.parametrize("name", ["parquet_lists", "csv_choices", "jsonl_lists", "jsonl_layers"])
def test_domains_are_labels(name, tmp_path):
    routing = modtf.read_routing(getattr(writers, name)(tmp_path), num_experts=writers.EXPERTS)
    assert routing.names.labels == ("code", "law")
    np.testing.assert_array_equal(routing.labels, np.array([0, 1, 0])[writers.DOCUMENTS])


@pytest.mark.parametrize("name", COUNTED)
def test_counts(name, tmp_path):
    thing = getattr(writers, name)(tmp_path)
    assert Arrays(thing).format == COUNTED[name]
    np.save(tmp_path / "labels.npy", [0, 1, 0])
    labels = str(tmp_path / "labels.npy")
    routing = modtf.read_routing(thing, labels=labels, num_experts=writers.EXPERTS)
    assert isinstance(routing.activations, Counted)
    assert not routing.has_tokens
    np.testing.assert_array_equal(routing.activations.counts, writers.COUNTS)


@pytest.mark.parametrize("top_k", [None, writers.K])
def test_counts_give_the_measures_of_their_tokens(top_k):
    labels = np.array([0, 1, 0])
    counts = modtf.read_routing({"counts": writers.COUNTS, "labels": labels}, top_k=top_k)
    sizes = {"documents": writers.DOCUMENTS, "num_experts": writers.EXPERTS}
    experts = modtf.read_routing({"experts": writers.CHOSEN, "labels": labels, **sizes})
    assert counts.num_tokens == (len(writers.TOKENS) if top_k else writers.K * len(writers.TOKENS))
    for layer, expected in zip(counts.measure(permutations=3), experts.measure(permutations=3), strict=True):
        np.testing.assert_allclose(layer.hard.activation, expected.hard.activation, atol=1e-12)
        value = layer.hard.values["alignment"].value
        assert value == pytest.approx(expected.hard.values["alignment"].value, abs=1e-12)


def test_counts_have_no_tokens():
    routing = modtf.read_routing({"counts": writers.COUNTS})
    with pytest.raises(
        ValueError, match=r"This routing holds counts without tokens. Measure it by routing\.measure"
    ):
        _ = routing.layers
    with pytest.raises(ValueError, match="holds counts of chosen experts"):
        modtf.read_routing({"counts": writers.COUNTS}, from_logits=True)


def test_router_logits(tmp_path):
    output = writers.router_logits(tmp_path)
    routing = modtf.read_routing(output)
    assert isinstance(routing.activations, Gates)
    np.testing.assert_allclose(routing.activations.values, np.log(writers.SCORES), rtol=1e-6)
    np.testing.assert_array_equal(routing.documents, writers.DOCUMENTS)
    np.testing.assert_array_equal(routing.factors["token"], writers.TOKENS)
    with pytest.warns(
        UserWarning, match="There is no attention_mask, so all tokens are counted, including any padding"
    ):
        bare = modtf.read_routing(tuple(layer[:20].bfloat16() for layer in output["router_logits"]))
    assert isinstance(bare.activations, Gates)
    np.testing.assert_allclose(bare.activations.values, np.log(writers.SCORES)[:, :20], rtol=1e-2)


def test_several_choices_share_a_prompt(tmp_path):
    (experts, _, tokens), *_ = writers.documents()
    response = writers.vllm_response(experts, tokens)
    response["choices"].append(response["choices"][0])
    with pytest.warns(UserWarning, match="has choices with the same prompt, whose tokens count once"):
        routing = modtf.read_routing(response, num_experts=writers.EXPERTS)
    np.testing.assert_array_equal(routing.factors["token"], [*tokens, *tokens[6:]])


def test_several_prompts_in_one_response_are_documents_of_their_own():
    """A request for completions may hold several prompts; each of its choices holds its prompt."""
    (experts, _, tokens), (others, _, more), *_ = writers.documents()
    response = writers.vllm_response(experts, tokens)
    prompt = response.pop("prompt_token_ids")
    first = response["choices"][0] | {"prompt_token_ids": prompt}
    second = writers.vllm_response(others, more)
    second = second["choices"][0] | {"prompt_token_ids": second["prompt_token_ids"]}
    response["choices"] = [first, second]
    routing = modtf.read_routing(response, num_experts=writers.EXPERTS)  # a warning would be an error
    np.testing.assert_array_equal(routing.factors["token"], [*tokens, *more])
    response["choices"] = [first, first, second, second]
    with pytest.warns(
        UserWarning, match="has choices with the same prompt, whose tokens count once"
    ) as warned:
        routing = modtf.read_routing(response, num_experts=writers.EXPERTS)
    assert len(warned) == 1
    np.testing.assert_array_equal(
        routing.factors["token"], [*tokens, *tokens[len(prompt) :], *more, *more[len(prompt) :]]
    )


def test_counts_that_every_rank_dumps_count_once(tmp_path):
    torch = pytest.importorskip("torch")
    for rank in range(2):
        torch.save({"rank": rank, "logical_count": torch.tensor(writers.COUNTS)}, tmp_path / f"{rank}.pt")
    with pytest.warns(UserWarning, match="1 of 2 dumps hold the same counts as another, as ranks do"):
        found = modtf.read_routing(tmp_path).activations
    np.testing.assert_array_equal(found.counts, writers.COUNTS)


def test_copies_of_ranks(tmp_path):
    """Tensor-parallel ranks dump the same tokens, and their counts are added up."""
    path = writers.sglang_recorder(tmp_path)
    (tmp_path / "expert_distribution_recorder_1.5_1.pt").write_bytes(path.read_bytes())
    with pytest.warns(UserWarning, match="1 of 2 dumps hold the same routing as another"):
        routing = modtf.read_routing(tmp_path)
    assert routing.num_tokens == len(writers.TOKENS)
    torch.save({"rank": 0, "logical_count": torch.tensor(8 * writers.COUNTS)}, tmp_path / "x.pt")
    with pytest.warns(UserWarning, match="All counts are multiples of 8, .* divided"):
        routing = modtf.read_routing(tmp_path / "x.pt")
    assert routing.num_tokens == writers.K * len(writers.TOKENS)


def test_generated_tokens_have_no_documents(tmp_path):
    """A decoding pass holds one token of each request, without the request's name."""
    dump = torch.load(writers.sglang_recorder(tmp_path), weights_only=True)
    dump["records"][1]["forward_mode"] = 2
    with pytest.warns(UserWarning, match="there are no documents"):
        assert modtf.read_routing(dump).documents is None


def test_nothing_is_unpickled(tmp_path):
    torch.save({"routed_experts": tmp_path}, tmp_path / "x.pt")
    with pytest.raises(ValueError, match=r"x\.pt cannot be read: .*Python objects, which are not unpickled"):
        modtf.read_routing(tmp_path / "x.pt")


def test_a_format_can_be_asked_for(tmp_path):
    path = writers.jsonl_layers(tmp_path)
    routing = modtf.read_routing(path, format="table", num_experts=writers.EXPERTS)
    assert routing.num_tokens == len(writers.TOKENS)
    with pytest.raises(ValueError, match=r"cannot be read as vllm: line 1 of x\.jsonl has no choices"):
        modtf.read_routing(path, format="vllm")
    with pytest.raises(ValueError, match=r"Unknown format: 'text'\. Known: flame, imatrix"):
        modtf.read_routing(path, format="text")


def responses(starts, lengths, layers=4):
    """Return responses of SGLang whose routing begins at a later token, and the experts of all tokens."""
    generator = np.random.default_rng(0)
    found, everything = [], []
    for start, length in zip(starts, lengths, strict=True):
        experts = np.argsort(generator.random((length, layers, 16)), axis=2)[..., :2].astype(np.int32)
        routed = base64.b64encode(experts[start:].tobytes()).decode()
        meta = {"prompt_tokens": length - 4, "completion_tokens": 5, "routed_experts": routed}
        found.append({"meta_info": meta})
        everything.append(experts[start:])
    return found, np.moveaxis(np.concatenate(everything), 1, 0)


@pytest.mark.parametrize("starts", [[0] * 9, [12] * 9, [5, 12, 1] * 3])
@pytest.mark.parametrize("lengths", [[24] * 9, [24, 36, 30] * 3])
def test_the_layers_of_sglang_are_known_or_asked_for(starts, lengths):
    """12 of 24 rows of four layers have the size of 24 rows of two layers."""
    some, experts = responses(starts, lengths)
    options = {"num_experts": 16, "top_k": 2}
    if lengths[0] == lengths[1] or any(starts):
        with pytest.raises(ValueError, match=r"[gG]ive --num_layers"):
            modtf.read_routing(some, **options)
    else:
        np.testing.assert_array_equal(modtf.read_routing(some, **options).activations.experts, experts)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        routing = modtf.read_routing(some, num_layers=4, **options)
    assert ["hold the routing of their last tokens only" in str(note.message) for note in notes] == [
        True
    ] * any(starts)
    np.testing.assert_array_equal(routing.activations.experts, experts)


def test_stale_rows_of_sglang_are_left_out():
    """A buffer repeats one row over 12 of 24 tokens in all layers."""
    some, experts = responses([0] * 9, [24] * 9)
    for response, document in zip(some, np.split(np.moveaxis(experts, 1, 0), 9), strict=True):
        document[7:19] = document[6]
        routed = base64.b64encode(np.ascontiguousarray(document)).decode()
        response["meta_info"]["routed_experts"] = routed
    with pytest.warns(UserWarning, match=r"117 of 216 tokens repeat one row .* tokens 6 to 18, 30 to"):
        routing = modtf.read_routing(some, num_experts=16, top_k=2, num_layers=4)
    kept = np.tile(np.r_[np.ones(6, bool), np.zeros(13, bool), np.ones(5, bool)], 9)
    np.testing.assert_array_equal(routing.activations.experts, experts[:, kept])


def test_answers_to_one_prompt_are_named():
    """GRPO samples several answers for each prompt."""
    batch = writers.verl_batch()
    number = len(batch["input_ids"])
    routing = modtf.read_routing(
        batch | {"prompts": np.arange(2 * number).reshape(number, 2)}, num_experts=16
    )
    with pytest.warns(
        UserWarning, match=rf"{number - 1} of {number} rows of .* repeat a prompt\. .*--documents="
    ):
        again = modtf.read_routing(batch | {"prompts": np.zeros((number, 2), int)}, num_experts=16)
    np.testing.assert_array_equal(again.documents, routing.documents)


#: format -> an object in memory with the experts [tokens, k] in one layer
WRAPPED = {
    "verl": lambda e: {
        "routed_experts": e[np.newaxis, :, np.newaxis], "attention_mask": np.ones((1, len(e))),
    },
    "vllm": lambda e: {
        "prompt_token_ids": [1, 2, 3], "prompt_routed_experts": e[:3, np.newaxis].tolist(),
        "choices": [{"token_ids": list(range(len(e) - 3)), "routed_experts": e[3:, np.newaxis].tolist()}],
    },
    "sglang": lambda e: {
        "meta_info": {"prompt_tokens": 1, "completion_tokens": len(e), "routed_experts": e.tolist()}
    },
    "transformer_lens": lambda e: {"blocks.0.mlp.hook_expert_indices": e},
    "mapping": lambda e: {"experts": e},
}  # fmt: skip


@pytest.mark.parametrize("name", [*WRAPPED, "megatron_core"])
def test_experts_that_would_wrap_are_refused_by_number(name, tmp_path):
    """2**32 + 2 is 2 in 32 bits."""
    experts = np.random.default_rng(0).integers(3, size=(40, 1)) + np.array([[0, 3]])
    thing = WRAPPED.get(name, lambda e: writers.write_lines(tmp_path / "x.jsonl", [
        {"block": "decoder", "layer": 0, "num_tokens": len(e), "top_indices": e.tolist()}]))  # fmt: skip
    options = {"num_experts": 8, "top_k": 2 if name == "sglang" else None, "num_layers": 1}
    assert modtf.read_routing(thing(experts), **options).num_tokens == 40
    experts[7, 0] = 2**32 + 2
    with pytest.raises(ValueError, match="4294967298"):
        modtf.read_routing(thing(experts), **options).measure(permutations=0)


@pytest.mark.parametrize("name", ["verl", "vllm", "mapping", "transformer_lens"])
def test_a_type_that_cannot_hold_the_experts_is_refused(name):
    """Expert 256 is 0 in 8 bits."""
    experts = (np.random.default_rng(0).integers(250, size=(40, 1)) + np.array([[0, 1]])).astype(np.uint8)
    routed = np.zeros(0) if name == "vllm" else WRAPPED[name](experts)
    if name == "vllm":
        choice = {"token_ids": list(range(40)), "routed_experts": writers.npy64(experts[:, np.newaxis])}
        routed = {"prompt_token_ids": [7], "choices": [choice]}
    assert modtf.read_routing(routed, num_experts=256).num_tokens == 40
    with pytest.raises(ValueError, match="experts are of type uint8, which holds numbers up to 255"):
        modtf.read_routing(routed, num_experts=257)


@pytest.mark.parametrize("write", ["sglang_recorder", "sglang_per_pass"])
@pytest.mark.parametrize("expert", [-1, 300])
def test_a_map_of_physical_experts_names_every_logical_one(write, expert, tmp_path):
    dump = torch.load(getattr(writers, write)(tmp_path), weights_only=True)
    dump["last_physical_to_logical_map"][1, 4] = expert
    with pytest.raises(
        ValueError, match=r"last_physical_to_logical_map of shape .* with every logical expert"
    ):
        modtf.read_routing(dump, num_experts=512)
