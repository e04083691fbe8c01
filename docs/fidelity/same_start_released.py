"""Trains the released mlp for some steps, and keeps what it began with, its batches and its losses.

    python docs/fidelity/same_start_released.py --code=PATH_TO_MOD_ARCH --out=runs/same_start

`same_start.py` takes the same steps with modtf. One file per setting and variant.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from cells import BATCH_SIZE, CELLS, VARIANTS, Matched
from released import load, make_batch, make_model, make_training


def train(code: Path, cell: Matched, variant: str, steps: int) -> dict[str, np.ndarray]:
    """Weights by name before the first step, and inputs [S, B, 2], rules, labels and losses of all."""
    data, module = load(code, cell)
    torch.manual_seed(0)
    np.random.seed(0)
    model = make_model(module, cell, variant)
    weights = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    optimizer, criterion = make_training(model, cell)
    rows = []
    for _ in range(steps):
        model.zero_grad()
        (inputs,), label, rule = make_batch(data, cell, 0, BATCH_SIZE)
        loss = criterion(model(inputs)[0], label)
        loss.backward()
        optimizer.step()
        rows.append((inputs.numpy()[:, :2], rule.argmax(axis=1), label.numpy(), loss.item()))
    found = (np.stack(column) for column in zip(*rows, strict=True))
    return {**weights, **dict(zip(("inputs", "rule", "label", "loss"), found, strict=True))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--code", type=Path, required=True, help="checkout of the released code")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=300)
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    for cell in CELLS.values():
        for variant in VARIANTS if cell.arch == "mlp" else ():
            found = train(given.code, cell, variant, given.steps)
            np.savez(given.out / f"{cell.name}-{variant}.npz", **found)
            print(cell.name, variant, found["loss"][-1])


if __name__ == "__main__":
    main()
