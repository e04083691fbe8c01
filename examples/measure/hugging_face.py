"""Train a small Hugging Face mixture of experts on text with known rules: do its experts find them?

Each token belongs to one of four rules. The rule determines the next token: with probability 0.9 a fixed one.
The model does not see which tokens share a rule. `pip install '.[hf]'`; two minutes on two cores.

    python examples/measure/hugging_face.py
"""

import tempfile
from pathlib import Path

import pandas as pd
import torch
from transformers import MixtralConfig, MixtralForCausalLM

import modtf
from modtf.routing import Routing, report_text, write_routing_report

RULES, WORDS, LENGTH, STEPS = 4, 8, 32, 600  # WORDS per rule, LENGTH tokens per document
FOLLOWS = torch.randperm(RULES * WORDS, generator=torch.Generator().manual_seed(1))


def text(documents: int, seed: int) -> torch.Tensor:
    """Return documents `[documents, LENGTH]`: the rule of a token sets the next one, with probability 0.9."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(RULES * WORDS, [documents, LENGTH], generator=generator)
    free = torch.rand([documents, LENGTH], generator=generator) < 0.1
    for n in range(1, LENGTH):
        shift = tokens[:, n - 1] // WORDS  # the index of the rule: each rule shifts by its own amount
        ruled = FOLLOWS[(tokens[:, n - 1] + shift) % (RULES * WORDS)]
        tokens[:, n] = torch.where(free[:, n], tokens[:, n], ruled)
    return tokens


def trained() -> MixtralForCausalLM:
    """Train a mixture of four experts, two per token, with two layers."""
    torch.manual_seed(0)
    model = MixtralForCausalLM(
        MixtralConfig(
            vocab_size=RULES * WORDS, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=4, num_local_experts=4, num_experts_per_tok=1,
            max_position_embeddings=LENGTH, output_router_logits=True, router_aux_loss_coef=0.02,
            bos_token_id=None, eos_token_id=None,
        )
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(STEPS):
        tokens = text(32, seed=step)
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.3f}", flush=True)
    return model


def main() -> None:
    model, batches = trained(), [text(32, seed) for seed in range(10_000, 10_008)]
    with tempfile.TemporaryDirectory() as folder:
        routing = Path(folder, "routing")
        modtf.collect(model, batches, routing, labels=lambda batch: batch["input_ids"] // WORDS, ablate=True)
        found = Routing.read(routing)
        layers = found.measure()
        print(report_text(layers, found.names))
        print(f"Wrote {write_routing_report(layers, Path('routing_page'), found.names)}")
        costs = pd.read_csv(routing / "ablation.csv")
    print("\nOne expert off: what it costs each rule (nats), and what being sent there tells of it (bits):")
    print(costs.pivot(index=["layer", "expert"], columns="label", values=["change", "bits"]).round(2))


if __name__ == "__main__":
    main()
