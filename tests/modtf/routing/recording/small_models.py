"""Small models of Hugging Face's, started at random."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZES: dict[str, Any] = {
    "vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64, "intermediate_size": 32, "num_experts_per_tok": 2,
    "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
SPLIT = {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
MODELS: dict[str, dict[str, Any]] = {
    "Mixtral": {"num_key_value_heads": 2, "num_local_experts": 8},
    "Olmoe": {"num_key_value_heads": 2, "num_experts": 8},
    "Qwen3Moe": {"num_key_value_heads": 2, "num_experts": 8, "moe_intermediate_size": 16, "head_dim": 8},
    "DeepseekV3": {
        "num_key_value_heads": 4, "n_routed_experts": 8, "moe_intermediate_size": 16, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1, **SPLIT,
    },
}  # fmt: skip


def make(name: str, **options: Any) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**SIZES, **MODELS[name], **options})
    return transformers.AutoModelForCausalLM.from_config(config)


def read(folder: Any) -> dict[str, Any]:
    return {file.stem: np.load(file) for file in folder.glob("*.npy")}
