"""The recorded experts equal a recomputation from the routers' inputs, in every family."""

import numpy as np
import pytest
from every_family import FAMILIES, make_family
from small_models import torch

import modtf

FAST = ("doge", "inkling2_loop", "jetmoe", "llama4", "nllb_moe", "switch_transformers")  # unlike the others
#: rule by which routers choose -> families, each with its number of routed layers
TABLE = {
    "logits":
        "aria 2, cohere2_moe 1, dbrx 2, deepseek_ocr2 1, flex_olmo 2, flint 1, gpt_oss 2, granitemoe 2, "
        "granitemoe_swa 2, granitemoehybrid 2, granitemoeshared 2, hunyuan_v1_moe 2, jamba 3, jetmoe 4, "
        "lara_mini 2, llama4 2, mellum 1, minimax 2, mixtral 2, olmoe 2, openai_privacy_filter 2, phimoe "
        "2, qwen2_moe 1, qwen3_5_moe 4, qwen3_moe 1, qwen3_next 2, qwen3_omni_moe 1, qwen3_vl_moe 1, "
        "qwen4_exp 4, unlimited_ocr 1",
    "normalised": "diffusion_gemma 2, gemma4 2",
    "logits + bias": "kolibri1 2",
    "softmax + bias": "ernie4_5_moe 1, ernie4_5_vl_moe 1, longcat_flash 2",
    "sigmoid + bias":
        "afmoe 1, hy_v3 1, inkling 1, inkling2 2, inkling2_loop 2, laguna 1, lfm2_moe 1, minimax_m2 2, "
        "minimax_m3_vl 1, muse_spark 1, step3p7 1",
    "sigmoid + bias, groups":
        "axk1 1, axk2 1, bailing_hybrid 5, beam 1, deepseek_v3 1, deepseek_v32 1, dots1 1, dots3_note 1, "
        "exaone_moe 1, glm4_moe 1, glm4_moe_lite 1, glm4v_moe 1, glm5_next 3, glm_moe_dsa 1, hy_v4 1, "
        "hy_v4_vl 1, kimi_linear 1, mimo_v2_flash 1, nemotron_h 1, sarvam_mla 1, sarvam_moe 1, solar_open "
        "2",
    "softmax, groups": "mistral4 1, mistral_large4 1",
    "softmax, groups by their largest": "deepseek_v2 1",
    "token IDs, then sqrt(softplus) + bias": "deepseek_v4 2",
    "a small network, with an expert that skips": "zaya 2",
    "product keys": "doge 2",
    "one expert with a capacity": "switch_transformers 2",
    "two experts with a capacity": "nllb_moe 2",
}  # fmt: skip
RULES = {
    one.split()[0]: (rule, int(one.split()[1])) for rule, row in TABLE.items() for one in row.split(", ")
}
IDS = torch.randint(3, 60, (3, 7), generator=torch.Generator().manual_seed(0))
MASK = torch.ones_like(IDS)
MASK[1, 5:] = 0
SIDES = {"": MASK, "encoder": MASK, "decoder": MASK.flip(0)}
DECODER_IDS = IDS[:, [4, 2, 0, 5, 6, 1, 3]]  # as long as the encoder's


def side_of(name):
    """The side of an encoder-decoder model, or "" where the model has one."""
    return next((side for side in ("encoder", "decoder") if side in name.split(".")), "")


def num_experts(router, block):
    """The number of experts."""
    owners = (router, block, getattr(block, "experts", None))
    return next(number for one in owners if (number := getattr(one, "num_experts", 0)))


def choose(rule, router, block, x, ids, layer):
    """Recompute the experts `[T, k]` of a router from its input x."""
    x = x.detach().float().reshape(-1, x.shape[-1])
    size = num_experts(router, block)
    weight = next(one for one in router.parameters() if one.ndim == 2 and len(one) >= size).float()
    if rule == "normalised":
        x = x * (x.square().mean(-1, keepdim=True) + router.eps).rsqrt() * router.scale * x.shape[-1] ** -0.5
    logits = x @ weight.T
    if getattr(router, "bias", None) is not None:
        logits = logits + router.bias
    logits = logits * getattr(router, "output_multiplier", 1.0)
    bias = [
        value.reshape(-1) for one in (router, block)
        for name, value in [*one.named_buffers(), *one.named_parameters()]
        if "correction_bias" in name or "expert_bias" in name
    ]  # fmt: skip
    scores = {
        "softmax": logits.softmax(-1), "sigmoid": logits.sigmoid(), "logits": logits, "normali": logits,
        "token I": torch.nn.functional.softplus(logits).sqrt(),
    }[rule[:7].rstrip(" +,")]  # fmt: skip
    if rule.startswith("token") and layer == 0:
        return router.tid2eid[ids.reshape(-1)]
    if "bias" in rule:
        scores = scores[:, : len(bias[0])] + bias[0]
    if "groups" in rule:
        groups = scores.reshape(len(scores), 2, -1)
        value = groups.amax(-1) if "largest" in rule else groups.topk(2).values.sum(-1)
        scores = torch.where((value == value.amax(1, keepdim=True))[..., None], groups, -1e9).flatten(1)
    return scores.topk(2, dim=-1).indices


def small_network(gate, x):
    """The experts of Zaya's router, -1 where the last of its classes means none."""
    mlp = gate.router_mlp
    hidden = torch.nn.functional.gelu(mlp.fc1(mlp.norm(x)))
    scores = mlp.out_proj(torch.nn.functional.gelu(mlp.fc2(hidden))).softmax(-1) + gate.balancing_biases
    chosen = scores.argmax(-1).reshape(-1, 1)
    return chosen.masked_fill(chosen == scores.shape[-1] - 1, -1)


def one_with_capacity(router, x):
    """Switch: of each row only the first few tokens of an expert are kept."""
    best = (x @ router.classifier.weight.T).argmax(-1)
    earlier = torch.stack([(best[:, : n + 1] == best[:, n : n + 1]).sum(1) for n in range(best.shape[1])], 1)
    return best.masked_fill(earlier > router.expert_capacity, -1).reshape(-1, 1)


def two_with_capacity(router, x, mask):
    """NLLB: the best two, in the order of tokens; those of first choice go before those of second."""
    best = (x @ router.classifier.weight.T).topk(2).indices.numpy()
    chosen, taken = np.full((len(x), 2), -1), np.zeros(router.num_experts, int)
    for rank in range(2):
        for token in np.flatnonzero(mask):
            expert = best[token, rank]
            chosen[token, rank] = expert if taken[expert] < 3 else -1
            taken[expert] += 1
    return torch.as_tensor(chosen)


def expected_of(family, model):
    """Hooks that note for each routed layer what its router should choose."""
    rule, _ = RULES[family]
    found: dict[str, list] = {}
    modules = dict(model.named_modules())
    for name, module in modules.items():
        block, last = modules[name.rpartition(".")[0]], name.rpartition(".")[2]
        if rule == "product keys" and last == "down_embed":  # whose rows are the experts
            found[name] = []
            module.register_forward_pre_hook(lambda _, args, name=name: found[name].append(args[0]))
        if last not in ("router", "gate") or not (hasattr(block, "experts") or hasattr(module, "top_k")):
            continue
        found[name] = []

        def note(router, args, name=name, block=block):
            x, layer = args[0], list(found).index(name)
            if rule.startswith("one"):
                found[name].append(one_with_capacity(router, x))
            elif rule.startswith("two"):
                found[name].append(two_with_capacity(router, x, SIDES[side_of(name)].flatten()))
            else:
                found[name].append(choose(rule, router, block, x, IDS, layer))

        if rule.startswith("a small"):
            module.router_mlp.register_forward_pre_hook(
                lambda _, args, name=name, gate=module: found[name].append(small_network(gate, args[0]))
            )
        else:
            module.register_forward_pre_hook(note)
    return found


@pytest.mark.parametrize(
    "family", [pytest.param(one, marks=() if one in FAST else pytest.mark.slow) for one in FAMILIES]
)
def test_experts_equal_a_recomputation(family, tmp_path):
    model = make_family(family)
    expected = expected_of(family, model)
    batch = {"input_ids": IDS, "attention_mask": MASK}
    if model.config.is_encoder_decoder:
        batch |= {"decoder_input_ids": DECODER_IDS, "decoder_attention_mask": SIDES["decoder"]}
    folder = modtf.collect(model, [batch], tmp_path / "x")
    assert sum(map(bool, expected.values())) == RULES[family][1]
    if family == "inkling2_loop":  # its second layer runs twice
        names = np.load(folder / "layer_names.npy").tolist()
        assert [name[-5:] for name in names] == ["perts", "run 1", "run 2"]
    for side in {side_of(name) for name in expected}:
        part, mask = folder / side, SIDES[side].bool()
        runs = [run for name, several in expected.items() if side_of(name) == side for run in several]
        for found, chosen in zip(np.load(part / "experts.npy"), runs, strict=True):
            np.testing.assert_array_equal(np.sort(found), np.sort(chosen[mask.flatten()].numpy()))
            assert len(np.unique(found)) > 3
        tokens = DECODER_IDS if side == "decoder" else IDS
        np.testing.assert_array_equal(np.load(part / "tokens.npy"), tokens[mask])


@pytest.mark.parametrize(
    ("family", "routers"),
    [
        ("doge", "*.router_gate"), ("dbrx", "*.router"), ("llama4", "*.router"), ("mixtral", "*.experts"),
        ("nllb_moe", "*.router"), ("switch_transformers", "*.router"),
    ],
)  # fmt: skip
def test_named_routers_are_read_like_what_is_found(family, routers, tmp_path):
    model = make_family(family)
    batch = {"input_ids": IDS, **({"decoder_input_ids": DECODER_IDS} if "_" in family else {})}
    modtf.collect(model, [batch], tmp_path / "x")
    modtf.collect(model, [batch], tmp_path / "y", routers=routers, top_k=2 if family == "dbrx" else None)
    for path in tmp_path.glob("x/**/experts.npy"):
        other = tmp_path / "y" / path.relative_to(tmp_path / "x")
        np.testing.assert_array_equal(np.load(path), np.load(other))


def test_tokens_of_images_go_to_their_own_experts(tmp_path):
    model = make_family("ernie4_5_vl_moe").bfloat16()
    images = IDS % 3 == 0
    batch = {"input_ids": IDS, "attention_mask": MASK, "moe_mm_token_type_ids": images.int()}
    experts = np.load(modtf.collect(model, [batch], tmp_path / "x") / "experts.npy")
    for layer, mine in zip(experts, (~images, images), strict=True):
        np.testing.assert_array_equal((layer >= 0).all(axis=-1), mine[MASK.bool()])


def test_the_table_has_every_family():
    assert sorted(RULES) == FAMILIES
    assert len(FAMILIES) == 77
