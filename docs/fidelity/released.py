"""Trains the released code's own models on its own data, and records what modtf's table needs.

Run it where PyTorch is installed, beside a checkout of the paper's released code:

    python docs/fidelity/released.py --code=PATH_TO_MOD_ARCH --out=runs/released --seed=0

One file per cell, variant and seed; those that are there are not trained again. It imports `data.py` and
`model.py` of the released code as they are, and trains as its `main.py` does: Adam at 1e-4, batches of 256,
L1 or binary cross-entropy, gradients of the rnn clipped to norm 1.
"""

import argparse
import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from cells import (
    ACTIVATION_EXAMPLES,
    BATCH_SIZE,
    CELLS,
    EVALUATION_BATCHES,
    EVALUATIONS,
    LEARNING_RATE,
    VARIANTS,
    WEIGHTS,
    Matched,
)

OPTIONS = {
    "monolithic": ("Monolithic", {}),
    "modular": ("Modular", {}),
    "modular_op": ("Modular", {"op": True}),
    "gt_modular": ("GT_Modular", {}),
}
SEARCHES = {1: 4, 2: 6}  # numbers a token has for each rule


def load(code: Path, cell: Matched):
    """Load the modules `data` and `model` of a folder of the released code."""
    for name in ("data", "model"):
        sys.modules.pop(name, None)
    sys.path.insert(0, str(code / cell.folder))
    try:
        return importlib.import_module("data"), importlib.import_module("model")
    finally:
        sys.path.pop(0)


def make_model(module, cell: Matched, variant: str):
    """Make the model as `main.py` does."""
    name, options = OPTIONS[variant]
    rules, width, dim = cell.num_rules, cell.width, 4 * cell.width
    if cell.arch == "mlp":
        if name == "Modular":
            options = {"op": variant == "modular_op", "joint": variant == "modular"}
            return module.Modular(rules, width, dim, rules, **options)
        return getattr(module, name)(rules, width, dim, *([] if name == "Monolithic" else [rules]))
    if cell.arch == "mha":
        heads = 2 * rules if name == "Monolithic" else 2
        inputs = (SEARCHES[search_of(cell)] + 1) * rules
        return module.Model(width, dim, heads, inputs, name, rules, options.get("op", False))
    outputs = 32 if cell.options.get("target") == "state" else 1
    return module.Model(32 + rules, width, dim, outputs, rules, name, options.get("op", False))


def search_of(cell: Matched) -> int:
    return int(cell.options.get("search", "v1").removeprefix("v"))


def make_batch(module, cell: Matched, data_seed: int, examples: int, double: bool = False):
    """Return inputs, rules and labels of a batch: tensors, the rules one-hot [tokens, R]."""
    if cell.arch == "mlp":
        data, label = module.data_v2(examples, cell.num_rules, data_seed, double)
        inputs, rule = [torch.Tensor(data)], data[:, 2:]
    elif cell.arch == "mha":
        data, label, rule = module.rules(examples, 10, cell.num_rules, 2, search_of(cell), data_seed, double)
        inputs = [torch.Tensor(data), torch.Tensor(rule)]
    else:
        data, label, rule = module.rules(examples, 10, cell.num_rules, 1, 32, data_seed, double)
        inputs = [torch.Tensor(data), torch.Tensor(rule)]
    return inputs, torch.Tensor(np.asarray(label, np.float32)), rule.reshape(-1, cell.num_rules)


def make_training(model, cell: Matched):
    """Return the optimizer and the loss that the released scripts train with."""
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    criterion = torch.nn.L1Loss() if cell.setting == "regression" else torch.nn.BCEWithLogitsLoss()
    return optimizer, criterion


def evaluate(model, module, cell: Matched, data_seed: int, criterion) -> dict[str, np.ndarray]:
    """Loss and error under both conditions, and the activation matrix [R, R]; training's stream of random
    numbers is left as it was."""
    state = np.random.get_state()
    np.random.seed(10_000)
    found: dict[str, np.ndarray] = {}
    with torch.no_grad():
        for suffix, double in (("", False), ("_scale2", True)):
            losses, errors = [], []
            for _ in range(EVALUATION_BATCHES):
                inputs, label, _ = make_batch(module, cell, data_seed, BATCH_SIZE, double)
                out, _ = model(*inputs)
                losses.append(float(criterion(out, label)))
                errors.append(100 * float(torch.ne(out >= 0, label > 0.5).double().mean()))
            found["loss" + suffix] = np.mean(losses)
            if cell.setting == "classification":
                found["error" + suffix] = np.mean(errors)
        inputs, _, rule = make_batch(module, cell, data_seed, ACTIVATION_EXAMPLES // cell.seq_len)
        _, score = model(*inputs)
        if score is not None:
            sums = rule.T @ score.reshape(-1, cell.num_rules).numpy().astype(np.float64)
            found["activation"] = sums / rule.sum(axis=0)[:, None]
    np.random.set_state(state)
    return found


def train(code: Path, cell: Matched, variant: str, data_seed: int, seed: int) -> dict[str, np.ndarray]:
    """One model: step -> what `evaluate` finds, stacked; and its final weights by `WEIGHTS` and name."""
    data, module = load(code, cell)
    torch.manual_seed(seed)
    np.random.seed(seed)
    model = make_model(module, cell, variant)
    optimizer, criterion = make_training(model, cell)
    every = cell.steps // EVALUATIONS
    steps, rows = [0], [evaluate(model, data, cell, data_seed, criterion)]
    for step in range(1, cell.steps + 1):
        model.zero_grad()
        inputs, label, _ = make_batch(data, cell, data_seed, BATCH_SIZE)
        out, _ = model(*inputs)
        criterion(out, label).backward()
        if cell.arch == "rnn":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % every == 0:
            steps.append(step)
            rows.append(evaluate(model, data, cell, data_seed, criterion))
    parameters = sum(p.numel() for p in model.parameters())
    stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    weights = {f"{WEIGHTS}{name}": value.numpy() for name, value in model.state_dict().items()}
    return {"steps": np.array(steps), "num_parameters": np.array(parameters), **stacked, **weights}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--code", type=Path, required=True, help="checkout of the released code")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cells", nargs="+", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--data_seed", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="in place of those of cells.py")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.Tensor.cuda = lambda tensor, *_: tensor  # the released rnn asks for a GPU
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.cells:
        for variant in VARIANTS:
            path = given.out / f"{name}-{variant}-task{given.data_seed}-seed{given.seed}.npz"
            if path.exists():
                continue
            cell = replace(CELLS[name], steps=given.steps or CELLS[name].steps)
            found = train(given.code, cell, variant, given.data_seed, given.seed)
            temporary = path.with_suffix(".writing.npz")
            np.savez(temporary, **found)
            temporary.rename(path)
            print(
                path.name,
                {k: round(float(found[k][-1]), 4) for k in found if k.startswith("loss")},
                flush=True,
            )


if __name__ == "__main__":
    main()
