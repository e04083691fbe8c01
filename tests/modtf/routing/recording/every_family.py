"""A small model of every family of `transformers` that has experts, started at random."""

import importlib
import inspect
from pathlib import Path
from typing import Any

from small_models import torch, transformers

NO_ROUTER = {"vitpose_backbone", "nemotron3_5_transcribe"}  # an expert a data set; no experts
FAMILIES = sorted(
    {
        path.parent.name
        for path in Path(transformers.__file__).parent.glob("models/*/configuration_*.py")
        if "expert" in path.read_text(encoding="utf-8")
    }
    - NO_ROUTER
)
SIZES: dict[str, Any] = {
    **dict.fromkeys(["vocab_size", "max_position_embeddings", "vocab_size_per_layer_input"], 64),
    **dict.fromkeys(["hidden_size", "d_model", "intermediate_size", "d_ff"], 32),
    **dict.fromkeys(["encoder_ffn_dim", "decoder_ffn_dim"], 32),
    **dict.fromkeys(["num_hidden_layers", "num_layers", "num_decoder_layers"], 2),
    **dict.fromkeys(["encoder_layers", "decoder_layers", "loop_num_passes", "loop_layer_index_end"], 2),
    **dict.fromkeys(["num_attention_heads", "num_heads", "num_key_value_heads"], 4),
    **dict.fromkeys(["encoder_attention_heads", "decoder_attention_heads"], 4),
    **dict.fromkeys(["moe_intermediate_size", "shared_expert_intermediate_size"], 16),
    **dict.fromkeys(["head_dim", "d_kv", "kv_lora_rank", "q_lora_rank", "qk_rope_head_dim"], 8),
    **dict.fromkeys(["qk_nope_head_dim", "v_head_dim", "linear_head_dim"], 8),
    **dict.fromkeys(["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"], 8),
    **dict.fromkeys(["num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts", "n_group"], 2),
    **dict.fromkeys(["topk_group", "first_k_dense_replace", "n_shared_experts", "num_shared_experts"], 1),
    **dict.fromkeys(["num_sparse_encoder_layers", "num_sparse_decoder_layers"], 1),
    **dict.fromkeys(["encoder_sparse_step", "decoder_sparse_step"], 2),
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "expert_capacity": 3, "sliding_window": 8,
    "mlp_layer_types": ["dense", "sparse"], "enable_moe_block": True, "is_moe": True,
    "loop_layer_index_start": 1, "n_layers_per_attn_res_block": 1,
}  # fmt: skip
ROPE = {"rope_type": "default", "rope_theta": 1e4}
FOUR = {"num_hidden_layers": 4, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]}
OPTIONS: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {"num_hidden_layers": 6, "mlp_layer_types": ["dense"] + 5 * ["sparse"]},
    "dbrx": {
        "n_heads": 4, "n_layers": 2, "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8},
        "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 8, "moe_top_k": 2},
    },
    "deepseek_v2": {"topk_method": "group_limited_greedy"},
    "deepseek_v4": {"mlp_layer_types": ["hash_moe", "moe"]},
    "doge": {"num_experts": 16},
    "ernie4_5_vl_moe": {
        "moe_intermediate_size": [16, 16], "rope_parameters": {**ROPE, "mrope_section": [1, 1, 2]},
    },
    "flint": {"mlp_only_layers": [0]},
    "glm4v_moe": {"rope_parameters": {**ROPE, "mrope_section": [1, 1, 2], "partial_rotary_factor": 1.0}},
    "glm5_next": {"qk_rope_head_dim": 0, "head_dim": 0, "linear_num_heads": 4, **FOUR},
    "granitemoehybrid": {"mamba_n_heads": 4, "layer_types": ["mamba", "attention"]},
    "hy_v4_vl": {"rope_parameters": {**ROPE, "mrope_section": [2, 1, 1]}},
    "jamba": {"num_hidden_layers": 6},
    "kimi_linear": {"layer_types": ["linear_attention", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "mimo_v2_flash": {"num_key_value_heads": 2},
    "nllb_moe": {"moe_eval_capacity_token_fraction": -1.0},
    "qwen3_5_moe": {"num_hidden_layers": 4},
    "qwen3_next": {"num_hidden_layers": 4},
    "qwen4_exp": {
        "num_hidden_layers": 4, "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8,
        "indexer_budget": 8, "indexer_compress_ratio": 4,
    },
    "zaya": {"num_experts_per_tok": 1},
}  # fmt: skip
CLASSES = {  # config, model; of the others a causal language model, or else the model of the text
    "deepseek_ocr2": ("DeepseekOcr2TextConfig", "DeepseekOcr2TextModel"),
    "diffusion_gemma": ("DiffusionGemmaTextConfig", "DiffusionGemmaEncoderTextModel"),
    "ernie4_5_vl_moe": ("Ernie4_5_VLMoeTextConfig", "Ernie4_5_VLMoeTextModel"),
    "nllb_moe": ("NllbMoeConfig", "NllbMoeForConditionalGeneration"),
    "qwen3_omni_moe": ("Qwen3OmniMoeTextConfig", "Qwen3OmniMoeThinkerTextModel"),
    "step3p7": ("Step3p7TextConfig", "Step3p7TextModel"),
    "switch_transformers": ("SwitchTransformersConfig", "SwitchTransformersForConditionalGeneration"),
    "unlimited_ocr": ("UnlimitedOcrTextConfig", "UnlimitedOcrTextModel"),
}


def make_family(family: str) -> Any:
    """Return a model in evaluation mode whose routers differ between tokens, and have biases."""
    package = f"transformers.models.{family}"
    config_class, model_class = _classes(family, importlib.import_module(f"{package}.configuration_{family}"))
    names = set(inspect.signature(config_class).parameters) | set(config_class.attribute_map)
    options = {**{name: SIZES[name] for name in SIZES if name in names}, **OPTIONS.get(family, {})}
    torch.manual_seed(0)
    config = config_class(**options)
    if isinstance(model_class, str):
        model = getattr(importlib.import_module(f"{package}.modeling_{family}"), model_class)(config)
    else:
        model = model_class.from_config(config)
    with torch.no_grad():
        for name, values in [*model.named_parameters(), *model.named_buffers()]:
            if "tid2eid" in name:
                values.copy_(torch.rand(*values.shape[:1], 8).argsort(-1)[:, : values.shape[1]])
            elif any(word in name for word in ("correction", "expert_bias", "balancing", "router.bias")):
                values.add_(0.2 * torch.randn_like(values))
            elif values.ndim == 2 and any(word in name for word in ("router", "gate.", ".wg.")):
                values.copy_(torch.randn_like(values))
    return model.eval()


def _classes(family: str, module: Any) -> tuple[Any, Any]:
    from transformers.models.auto import modeling_auto as auto

    if family in CLASSES:
        return getattr(module, CLASSES[family][0]), CLASSES[family][1]
    configs: list[Any] = [
        one for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, transformers.PreTrainedConfig)
        and one.__module__ == module.__name__
    ]  # fmt: skip
    for names, model in (
        (auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, transformers.AutoModelForCausalLM),
        (auto.MODEL_MAPPING_NAMES, transformers.AutoModel),
    ):
        fit = [one for one in configs if one.model_type in names]
        for one in sorted(fit, key=lambda config: not config.__name__.endswith("TextConfig")):
            if "num_experts_per_tok" in dir(one) or len(fit) == 1 or one.__name__.endswith("TextConfig"):
                return one, model
    raise ValueError(f"{family} has no model")
