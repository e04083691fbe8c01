"""Takes the steps of `same_start_released.py` with modtf: the same weights at first, the same batches.

    python docs/fidelity/same_start.py --released=runs/same_start

Prints how far the losses of the two are apart, relative to the released one.
"""

import argparse
from pathlib import Path

import numpy as np
from cells import CELLS, LEARNING_RATE, VARIANTS, WIDTH, Matched

import modtf
from modtf.training.compile import compile_model

PLACES = {"digit_encoder": "encoder_digit", "rule_encoder": "encoder_operation", "decoder": "decoder"}


def weights_of(released: dict[str, np.ndarray], variant: str) -> dict[str, np.ndarray]:
    """ "layer/weight" of modtf -> its numbers, without the members axis."""

    def dense(name: str) -> dict[str, np.ndarray]:
        return {"kernel": released[f"{name}.weight"], "bias": released[f"{name}.bias"][:, None]}

    layers = {
        f"{ours}_{place}": dense(f"{theirs}.{number}")
        for ours, theirs in PLACES.items()
        for place, number in (("first", 0), ("second", 2))
    }
    if variant == "monolithic":
        layers |= {"modules_first": dense("MLP.0"), "modules_last": dense("MLP.2")}
    else:
        first, last = ((released[f"MLP.{n}.w"], released[f"MLP.{n}.b"][0]) for n in (0, 2))
        (w, b), (kernel, bias) = first, last  # [R, inputs, outputs] and [R, outputs]
        layers["modules_first"] = {
            "kernel": w.swapaxes(1, 2).reshape(-1, w.shape[1]),
            "bias": b.reshape(-1, 1),
        }
        scores = {}
        if variant == "modular":  # a module's last output is its score
            scores = {"score_kernel": kernel[..., -1:], "score_bias": bias[:, -1:]}
            kernel, bias = kernel[..., :-1], bias[:, :-1]
        joined = kernel.transpose(2, 0, 1).reshape(kernel.shape[2], -1)
        layers["modules_last"] = {"kernel": joined, "bias": bias.T, **scores}
    if variant == "modular_op":
        layers["router"] = dense("scorer")
    return {f"{layer}/{name}": value for layer, found in layers.items() for name, value in found.items()}


def losses(cell: Matched, variant: str, released: dict[str, np.ndarray]) -> np.ndarray:
    """modtf's, of every step."""
    task = modtf.Task(cell.arch, cell.setting, cell.num_rules)
    model = modtf.build([task], variant, WIDTH, [0])
    weights = weights_of(released, variant)
    for variable in model.trainable_variables:
        layer, name = variable.path.split("/")[-2:]
        layer = layer if f"{layer}/{name}" in weights else "router"
        variable.assign(weights[f"{layer}/{name}"][None])
    compile_model(model, model.population, modtf.Training(steps=1, learning_rate=LEARNING_RATE))
    found = []
    for inputs, rule, label in zip(released["inputs"], released["rule"], released["label"], strict=True):
        model.reset_metrics()
        features = {"inputs": inputs[:, None], "rule": rule[:, None].astype(np.int32)}
        found.append(float(model.train_on_batch(features, {"target": label[:, None]})))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--released", type=Path, required=True)
    given = parser.parse_args()
    for cell in CELLS.values():
        for variant in VARIANTS if cell.arch == "mlp" else ():
            with np.load(given.released / f"{cell.name}-{variant}.npz", allow_pickle=False) as file:
                released = dict(file)
            apart = np.abs(losses(cell, variant, released) / released["loss"] - 1.0)
            said = ", ".join(f"{n} steps {apart[:n].max():.1e}" for n in (1, 50, len(apart)))
            print(f"{cell.name} {variant}: largest relative difference of the loss in {said}")


if __name__ == "__main__":
    main()
