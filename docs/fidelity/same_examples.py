"""Evaluates the trained mlp of both codes on the same examples, and pools their ratios over the variants.

    python docs/fidelity/same_examples.py --released=runs/released --ours=runs/matched --code=../Mod_Arch

Every number is a mean over models, of the weights after the last step. "fresh" are new examples of modtf,
"released" the 5,120 that the released code's evaluation reads for every model. A ratio is modtf / released.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from cells import BATCH_SIZE, CELLS, EVALUATION_BATCHES, VARIANTS, WEIGHTS, WIDTH, Matched
from released import load, make_batch
from same_start import weights_of
from scipy import stats

import modtf
from modtf.results import find_cells

LEVEL = 0.95
NAMES = ["cell", "variant", "measure"]


def released_models(folder: Path, cell: Matched, variant: str):
    """Return the released models as a population of modtf; None if there are none."""
    paths = sorted(folder.glob(f"{cell.name}-{variant}-*.npz"))
    if not paths:
        return None
    models, tasks = [], []
    for path in paths:
        with np.load(path, allow_pickle=False) as file:
            weights = {name.removeprefix(WEIGHTS): file[name] for name in file if name.startswith(WEIGHTS)}
        models.append(weights_of(weights, variant))
        data_seed = int(path.stem.split("-task")[1].split("-")[0])
        tasks.append(modtf.Task(cell.arch, cell.setting, cell.num_rules, data_seed=data_seed))
    model = modtf.build(tasks, variant, WIDTH, range(len(tasks)))
    model.trained_on = model.population
    for variable in model.trainable_variables:
        layer, name = variable.path.split("/")[-2:]
        layer = layer if f"{layer}/{name}" in models[0] else "router"
        variable.assign(np.stack([weights[f"{layer}/{name}"] for weights in models]))
    return model


def our_models(folder: Path, cell: Matched, variant: str):
    """Return the population of a finished cell; None if there is none."""
    for found in find_cells(folder):
        task = found.definition.task
        same = (task.arch, task.setting, task.num_rules) == (cell.arch, cell.setting, cell.num_rules)
        if found.is_finished and same and found.definition.variant == variant:
            model = modtf.load_model(found.path / "last.keras")
            model.trained_on = model.population
            return model
    return None


def on_fresh(model, cell: Matched, batches: int) -> dict[str, float]:
    """Return mean loss and error over the members, on examples of modtf that are the same for both codes."""
    sizes = modtf.Evaluation(batches=batches, batch_size=1024, tokens=1024, conditions=("scale2",))
    return pd.DataFrame(modtf.evaluate(model, model.population, evaluation=sizes)).mean().to_dict()


def on_released(model, cell: Matched, code: Path) -> dict[str, float]:
    """Return the same on the examples of the released code's evaluation (task 0)."""
    data, _ = load(code, cell)
    np.random.seed(10_000)
    found, members = {}, len(model.trained_on)
    for suffix, double in (("", False), ("_scale2", True)):
        for _ in range(EVALUATION_BATCHES):
            (inputs,), label, rule = make_batch(data, cell, 0, BATCH_SIZE, double)
            y = label.numpy()[:, None]
            features = {
                "inputs": inputs.numpy()[:, None, :2],
                "rule": rule.argmax(axis=1)[:, None].astype(np.int32),
            }
            out = model({name: np.repeat(x, members, axis=1) for name, x in features.items()})["target"]
            out = np.asarray(out).reshape(len(y), members)
            wrong = np.abs(out - y) if cell.setting == "regression" else 100 * ((out >= 0) != (y > 0.5))
            name = ("loss" if cell.setting == "regression" else "error") + suffix
            found[name] = found.get(name, 0.0) + float(wrong.mean()) / EVALUATION_BATCHES
    return found


def scores(given: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Yield one row per cell, variant, measure and examples, with the means of both codes."""
    for cell in (cell for cell in CELLS.values() if cell.arch == "mlp"):
        for variant in VARIANTS:
            models = {
                "released": released_models(given.released, cell, variant),
                "modtf": our_models(given.ours, cell, variant),
            }
            numbers = {who: 0 if model is None else len(model.trained_on) for who, model in models.items()}
            for examples, of, how in (
                ("fresh", on_fresh, given.batches),
                ("released", on_released, given.code),
            ):
                means = {
                    who: of(model, cell, how) for who, model in models.items() if model is not None and how
                }
                for suffix in ("", "_scale2"):
                    name = ("loss" if cell.setting == "regression" else "error") + suffix
                    values = {who: found[name] for who, found in means.items()}
                    models_of = f"{numbers['released']}, {numbers['modtf']}"
                    key = {"cell": cell.name, "variant": variant, "measure": name, "examples": examples}
                    yield {**key, "models": models_of, **values}


def pooled(ratios: pd.Series) -> str:
    """Return the geometric mean of the variants' ratios, with Student's interval."""
    logs = np.log(ratios.dropna().to_numpy())
    if len(logs) < 2:
        return ""
    half = stats.t.ppf((1 + LEVEL) / 2, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    low, middle, high = np.exp(logs.mean() + half * np.array([-1, 0, 1]))
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--released", type=Path, required=True)
    parser.add_argument("--ours", type=Path, required=True)
    parser.add_argument("--code", type=Path, help="checkout of the released code, for its own examples")
    parser.add_argument("--batches", type=int, default=200, help="of 1,024 examples, under each condition")
    rows = pd.DataFrame(scores(parser.parse_args())).reindex(
        columns=[*NAMES, "examples", "models", "released", "modtf"]
    )
    rows["ratio"] = rows["modtf"] / rows["released"]
    print(rows.dropna(how="all", subset=["released", "modtf"]).to_markdown(index=False, floatfmt=".4g"))
    print("\nRatio, the mean over variants:")
    for key, ratios in rows.groupby(["cell", "measure", "examples"], sort=False)["ratio"]:
        print(*key, pooled(ratios))
    wide = rows.pivot(index=NAMES, columns="examples", values="modtf")
    print("\nmodtf's own models, released examples by fresh ones:")
    for key, ratios in (wide["released"] / wide["fresh"]).groupby(["cell", "measure"]):
        print(*key, pooled(ratios))


if __name__ == "__main__":
    main()
